//! The folder of a machine that runs: its initramfs, its log, its socket.
//!
//! Whoever keeps a machine holds a lock in its folder, and the kernel drops that
//! lock with the process, however it ends. A folder whose lock is free is
//! therefore left over, and the next lab removes it.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kumiki_sys::directory::remove_with_company;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};

pub(crate) const LOCK: &str = "lock";
/// Beginning of the folders of machines that have no name.
pub(crate) const UNNAMED: &str = "run-";

/// The folders that this process has made and not yet removed.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what this process has on the disk for machines that run and for packages that
/// are being unpacked. For a process that is about to exit without ending these; the kernel
/// ends them then.
pub fn remove_all() {
    for folder in MADE.lock().expect("no holder panics").drain(..) {
        remove_with_company(&folder);
    }
}

/// This process has made a folder.
pub(crate) fn made(folder: &Path) {
    MADE.lock().expect("no holder panics").push(folder.to_owned());
}

/// Forgets a folder: its maker removes it, or it has another name.
pub(crate) fn gone(folder: &Path) {
    MADE.lock().expect("no holder panics").retain(|one| one != folder);
}

/// A machine's folder, removed with this value.
pub(crate) struct Place {
    folder: PathBuf,
    _lock: File,
    stays: bool,
}

impl Place {
    /// Makes the folder of a machine that ends with the process.
    pub(crate) fn unnamed() -> Result<Self> {
        Self::make(&format!("{UNNAMED}{:012x}", fastrand::u64(..1 << 48)))
    }

    /// Makes the folder of a machine of this name, which must not be there.
    pub(crate) fn named(name: &str) -> Result<Self> {
        Self::make(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn make(name: &str) -> Result<Self> {
        let root = root()?;
        sweep(&root)?;
        let _alone = alone(&root)?;
        let folder = root.join(name);
        DirBuilder::new().mode(0o700).create(&folder).map_err(Error::file("making", &folder))?;
        let _lock = lock(&folder.join(LOCK), FlockOperation::LockExclusive)?;
        made(&folder);
        Ok(Place { folder, _lock, stays: false })
    }
}

impl Place {
    /// Lets the folder stay, as one that nobody keeps.
    pub(crate) fn leave(&mut self) {
        self.stays = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        gone(&self.folder);
        if !self.stays {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The folder of all machines of this user.
pub(crate) fn root() -> Result<PathBuf> {
    let root = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_dir() => PathBuf::from(folder).join("kumiki-lab"),
        _ => {
            let user = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("kumiki-lab-{user}"))
        }
    };
    DirBuilder::new().mode(0o700).recursive(true).create(&root).map_err(|error| {
        let reason = format!("{error}; TMPDIR or XDG_RUNTIME_DIR names another folder");
        Error::malformed(format!("making {} for machines", root.display()), reason)
    })?;
    // In a folder that all may write to, somebody else may have been first.
    let metadata = fs::symlink_metadata(&root).map_err(Error::file("examining", &root))?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(Error::malformed(root.display(), "it is not a folder of this user"));
    }
    Ok(root)
}

/// True if nobody keeps the machine of this folder any more.
pub(crate) fn is_left_over(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK),
        Err(_) => true,
    }
}

/// Removes the folder of a machine that nobody keeps.
pub(crate) fn remove_left_over(root: &Path, folder: &Path) -> Result<()> {
    let _alone = alone(root)?;
    if is_left_over(folder) {
        let _ = fs::remove_dir_all(folder);
    }
    Ok(())
}

/// Removes what machines without a name have left over.
pub(crate) fn sweep(root: &Path) -> Result<()> {
    // Nobody is to be between making a folder and holding its lock.
    let _alone = alone(root)?;
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let unnamed = entry.file_name().to_string_lossy().starts_with(UNNAMED);
        if unnamed && is_left_over(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Held while nobody is to make or remove a machine's folder.
pub(crate) fn alone(root: &Path) -> Result<File> {
    lock(&root.join(LOCK), FlockOperation::LockExclusive)
}

fn lock(path: &Path, how: FlockOperation) -> Result<File> {
    let file = File::create(path).map_err(Error::file("making", path))?;
    flock(&file, how).map_err(|errno| Error::file("locking", path)(errno.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use std::thread;

    use super::*;

    /// A plain removal leaves most of these folders.
    #[test]
    fn a_folder_goes_while_somebody_makes_files_in_it() {
        let all = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let folder = all.path().join(round.to_string());
            fs::create_dir(&folder).unwrap();
            let (begun, is_begun) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 0..2000 {
                        let _ = File::create(folder.join(number.to_string()));
                        let _ = begun.send(());
                    }
                });
                is_begun.recv().unwrap();
                remove_with_company(&folder);
            });
            assert!(!folder.exists(), "round {round}");
        }
    }
}
