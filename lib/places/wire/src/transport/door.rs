//! A place's socket and the file whose lock says that it is served.
//!
//! The lock goes with its process, however that ends; the files stay where it was killed. Who opens a door removes
//! both at its end, the lock's file while it holds the lock: whoever locks a file that has no name any more begins anew.
//! What killed processes have left is swept away when somebody begins to serve.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;

use crate::error::{Error, Result};
use crate::transport::sockets::{is_name, paths};

/// End of the name of a file that is locked.
const LOCK: &str = ".lock";
/// Tries to lock a file: somebody who sweeps holds it for a moment.
const TRIES: u32 = 20;
/// Pause between two tries.
const MOMENT: Duration = Duration::from_millis(2);

/// A place's socket, as long as it is served.
#[derive(Debug)]
pub struct Door {
    pub listener: UnixListener,
    path: PathBuf,
    lock_path: PathBuf,
    /// Locked as long as the place is served.
    _lock: File,
}

impl Door {
    /// Makes the socket of a place that nobody serves.
    pub fn open(folder: &Path, place: &str) -> Result<Door> {
        let (path, lock_path) = paths(folder, place);
        let failed = |what: &str| {
            let what = format!("{what} {}", path.display());
            move |source| Error::Io { what, source }
        };
        let lock = locked(&lock_path).map_err(failed("locking"))?;
        let Some(lock) = lock else { return Err(Error::PlaceTaken { place: place.to_owned() }) };
        // From here on both are removed, whatever happens. The socket may be one of a process that was killed.
        let _ = fs::remove_file(&path);
        let bound =
            StdListener::bind(&path).map_err(failed("making the socket")).and_then(|listener| {
                fs::set_permissions(&path, Permissions::from_mode(0o600))
                    .and_then(|()| listener.set_nonblocking(true))
                    .map_err(failed("keeping others from the socket"))?;
                UnixListener::from_std(listener).map_err(failed("hearing at the socket"))
            });
        match bound {
            Ok(listener) => Ok(Door { listener, path, lock_path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_file(&lock_path);
                Err(error)
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// Locks the file of this name, which is made if need be; none if somebody else has it.
fn locked(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            std::thread::sleep(MOMENT);
            continue;
        }
        if is_of(&file, path) {
            return Ok(Some(file));
        }
        // It was removed before it was locked.
    }
    Ok(None)
}

/// True if the file has this name.
fn is_of(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (own, named) = (file.metadata().map(identity), fs::symlink_metadata(path).map(identity));
    matches!((own, named), (Ok(own), Ok(named)) if own == named)
}

/// Removes what processes that were killed have left. What cannot be removed is nobody's harm.
pub fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(place) = name.to_str().and_then(|name| name.strip_suffix(LOCK)) else { continue };
        let lock_path = entry.path();
        // A name that only a version before this one took is swept, too.
        if !is_name(place.trim_end_matches('.')) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(&lock_path) else { continue };
        let is_free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_free && is_of(&file, &lock_path) {
            let _ = fs::remove_file(paths(folder, place).0);
            let _ = fs::remove_file(&lock_path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn nothing_stays_of_a_door_and_one_that_is_open_is_not_swept_away() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let open = |place: &str| Door::open(folder, place);
        let door = open("n1.core0").unwrap();
        assert!(matches!(open("n1.core0"), Err(Error::PlaceTaken { .. })));
        // As a process that was killed leaves them, and what is somebody else's.
        for left in ["n1.core7.place", "n1.core7.lock", "n2.core0.lock", "17.sock", "x y.lock"] {
            fs::write(folder.join(left), "").unwrap();
        }
        sweep(folder);
        let own = ["n1.core0.lock", "n1.core0.place"];
        assert_eq!(files(folder), [&["17.sock"][..], &own, &["x y.lock"]].concat());
        drop(door);
        assert_eq!(files(folder), ["17.sock", "x y.lock"]);
        drop(open("n1.core0").unwrap());
        // No room for a socket's name: the lock's file goes, too.
        let long = "a".repeat(190);
        assert!(open(&long).is_err());
        assert_eq!(files(folder), ["17.sock", "x y.lock"]);
    }

    #[tokio::test]
    async fn of_many_that_open_close_and_sweep_one_has_it_at_a_time() {
        use std::sync::atomic::AtomicUsize;
        use std::sync::atomic::Ordering::SeqCst;
        let folder = tempfile::tempdir().unwrap();
        let (inside, opened) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let runtime = tokio::runtime::Handle::current();
        std::thread::scope(|threads| {
            for number in 0..4 {
                let (inside, opened, runtime) = (&inside, &opened, &runtime);
                let folder = folder.path();
                threads.spawn(move || {
                    let _in = runtime.enter();
                    for _ in 0..200 {
                        if number == 0 {
                            sweep(folder);
                        } else if let Ok(door) = Door::open(folder, "n1.core0") {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two have it");
                            assert!(door.path.exists(), "it was swept away");
                            inside.fetch_sub(1, SeqCst);
                            opened.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
        });
        assert!(opened.load(SeqCst) > 0);
        assert!(files(folder.path()).is_empty());
    }
}
