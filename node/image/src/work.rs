//! A folder for work that is gone when its process is, however that ends.
//!
//! ```text
//!   this process --holds--> a lock on the folder, the end of a pipe
//!   its cleaner  --reads--> the pipe; at its end it removes the folder
//!   the next one --tries--> the locks of folders that are there: those of nobody are removed
//! ```
//!
//! The cleaner is for a process that is killed; the next one, for both being killed at once, as
//! with a control group or a machine.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

const PREFIX: &str = "kumiki-image-";
/// Its first line of input never comes. A program of ours that dies a moment later may still make a
/// file.
const CLEANER: &str = "read -r _; rm -rf -- \"$1\" || { sleep 1; rm -rf -- \"$1\"; }";

/// A folder for such work.
#[derive(Debug)]
pub(crate) struct Work {
    folder: PathBuf,
    cleaner: Option<Child>,
    /// Held as long as it is used.
    _lock: File,
}

impl Work {
    /// Makes one in `place`, and removes those there that are nobody's any more.
    pub(crate) fn new_in(place: &Path) -> io::Result<Self> {
        sweep(place);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
            let lock = open(folder.path())?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            // Between its making and its lock another one may have swept it.
            if fs::metadata(folder.path()).is_ok_and(|about| is_same(&about, &lock)) {
                let cleaner = cleaner(folder.path());
                return Ok(Work { folder: folder.keep(), cleaner, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(mut cleaner) = self.cleaner.take() {
            // Its input ends, and it finds nothing more.
            drop(cleaner.stdin.take());
            let _ = cleaner.wait();
        }
    }
}

/// None where no process can be started: then the next one sweeps.
fn cleaner(folder: &Path) -> Option<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", CLEANER, "sh"]).arg(folder).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // What a terminal sends to all of a job is not for it.
    command.process_group(0).spawn().ok()
}

fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, flags, Mode::empty())?))
}

fn is_same(about: &fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|of| (of.dev(), of.ino()) == (about.dev(), about.ino()))
}

/// Removes folders of ours whose process has ended without it.
fn sweep(place: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == own);
        let Some(lock) = is_ours.then(|| open(&entry.path()).ok()).flatten() else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_gone_with_its_process_however_that_ends() {
        let place = tempfile::tempdir().unwrap();
        let work = Work::new_in(place.path()).unwrap();
        fs::create_dir(work.path().join("data")).unwrap();
        fs::write(work.path().join("data/0"), "content").unwrap();
        let folder = work.path().to_owned();
        // As the kernel leaves it behind: its descriptors closed, nothing else done.
        let mut work = std::mem::ManuallyDrop::new(work);
        let mut cleaner = work.cleaner.take().unwrap();
        drop(cleaner.stdin.take());
        assert!(cleaner.wait().unwrap().success());
        assert!(!folder.exists());
        let whole = Work::new_in(place.path()).unwrap();
        let folder = whole.path().to_owned();
        drop(whole);
        assert!(!folder.exists());
    }

    #[test]
    fn what_is_nobodys_any_more_is_removed_and_what_is_in_use_stays() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join(format!("{PREFIX}left"));
        fs::create_dir_all(left.join("data")).unwrap();
        fs::create_dir(place.path().join("other")).unwrap();
        std::os::unix::fs::symlink("other", place.path().join(format!("{PREFIX}link"))).unwrap();
        let first = Work::new_in(place.path()).unwrap();
        let second = Work::new_in(place.path()).unwrap();
        assert!(!left.exists() && first.path().exists() && second.path().exists());
        assert!(place.path().join("other").exists());
    }
}
