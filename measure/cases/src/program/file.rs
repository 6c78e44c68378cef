//! The folder of program files, kept for later visits.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use super::limits;
use kumiki_measure::error::{Error, Result};
use kumiki_sys::pause::pause;

/// Another thread's child needs far less from its fork to its exec, and some file systems never give a lease.
const COPIES_END: Duration = Duration::from_secs(1);

/// Makes the file `name` in the folder `programs` of `scratch` with what `write`
/// writes, `bytes` at most, unless it is there already.
///
/// The file is written back before this returns: the disk shall not work on it
/// during the samples.
///
/// # Errors
/// [`Error::Unsupported`] if the file system has no room, before a byte is
/// written; [`Error::File`] if writing fails, and then no file is left behind.
pub(super) fn make(
    scratch: &Path,
    name: &str,
    bytes: u64,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<PathBuf> {
    let folder = scratch.join("programs");
    let path = std::path::absolute(folder.join(name)).map_err(error(&folder))?;
    if path.exists() {
        return Ok(path);
    }
    limits::file_fits(scratch, bytes)?;
    if !folder.exists() {
        std::fs::create_dir(&folder).map_err(error(&folder))?;
    }
    let mut file = NamedTempFile::new_in(&folder).map_err(error(&folder))?;
    let finish = |file: &mut NamedTempFile| {
        write(file)?;
        file.as_file().set_permissions(Permissions::from_mode(0o755))?;
        file.as_file().sync_data()
    };
    finish(&mut file).map_err(error(&path))?;
    let file = file.into_temp_path();
    // Only when no descriptor can write to it any more may it be run.
    no_writer_is_left(&file).map_err(error(&path))?;
    file.persist(&path).map_err(|e| error(&path)(e.error))?;
    Ok(path)
}

/// Waits until no descriptor of any process can write to the file at `path`.
///
/// A child that another thread has forked holds, until its own exec, a copy of
/// every descriptor, also of the one that has written this file; the kernel
/// runs no file that is open for writing (`ETXTBSY`). It gives a lease for
/// reading to nobody before that has passed (fcntl(2), `F_SETLEASE`). Where a
/// file system gives none, the file is left to whoever runs it, who is told if it is busy.
fn no_writer_is_left(path: &Path) -> io::Result<()> {
    let file = std::fs::File::open(path)?;
    let deadline = Instant::now() + COPIES_END;
    loop {
        // SAFETY: the call reads its three numbers and touches no memory of ours.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
        // Closing the file gives the lease back.
        let busy = answer < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
        if !busy || Instant::now() >= deadline {
            return Ok(());
        }
        pause(Duration::from_millis(1));
    }
}

fn error(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_file_is_run_only_when_no_copy_of_its_descriptor_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        let closed = AtomicBool::new(false);
        thread::scope(|scope| {
            let closed = &closed;
            let path = make(scratch.path(), "true", 1 << 20, |file| {
                file.write_all(&std::fs::read("/bin/true")?)?;
                // As a child of another thread has it, by a name that is to change.
                let folder = scratch.path().join("programs");
                let name = std::fs::read_dir(folder)?.next().expect("it is being written")?.path();
                let copy = File::options().append(true).open(name)?;
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(50));
                    closed.store(true, Ordering::SeqCst);
                    drop(copy);
                });
                Ok(())
            });
            let path = path.unwrap();
            assert!(closed.load(Ordering::SeqCst), "it was left while it could be written");
            assert!(Command::new(path).status().unwrap().success());
        });
    }
}
