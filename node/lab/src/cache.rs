//! What labs keep between runs: Debian's packages unpacked, kernels
//! uncompressed, logs of runs that failed. All of it can be had again, so the
//! folder may be removed at any time when no lab is starting.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::place;

/// The folder of what is kept.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// A folder for what is not finished, removed with this value.
pub(crate) struct Scratch {
    folder: TempDir,
    /// Shared by all who have such a folder.
    _held: File,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        place::gone(self.folder.path());
    }
}

/// Held while one process does what two must not do at once.
pub(crate) struct Alone {
    _locked: File,
}

impl Cache {
    /// `kumiki/lab` in the user's cache folder by the XDG rules.
    pub fn of_user() -> Result<Self> {
        let base = etcetera::choose_base_strategy()
            .map_err(|error| Error::malformed("the user's cache folder", error))?;
        let folder = base.cache_dir().join("kumiki/lab");
        Self::at(&folder).map_err(|error| {
            let reason = format!("{error}; XDG_CACHE_HOME names another folder to have it in");
            Error::malformed("the lab's cache", reason)
        })
    }

    /// Makes a cache in this folder, which is made if need be.
    pub fn at(folder: &Path) -> Result<Self> {
        for part in ["locks", "scratch", "packages"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(Error::file("making", part))?;
        }
        // apt and chroot are given paths from other folders than ours.
        let folder = folder.canonicalize().map_err(Error::file("finding", folder))?;
        Ok(Cache { folder })
    }

    /// Path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until no other process holds this name.
    pub(crate) fn lock(&self, name: &str) -> Result<Alone> {
        let path = self.folder.join("locks").join(name.replace('/', "-"));
        let file = File::create(&path).map_err(Error::file("making", &path))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|errno| Error::file("locking", &path)(errno.into()))?;
        Ok(Alone { _locked: file })
    }

    /// A folder for what is not finished, on the file system of the rest.
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        let place = self.folder.join("scratch");
        let lock = self.folder.join("locks/scratch");
        let held = File::create(&lock).map_err(Error::file("making", &lock))?;
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Nobody has a folder here: those that are there are left of labs that were killed.
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        flock(&held, FlockOperation::LockShared)
            .map_err(|errno| Error::file("locking", &lock)(errno.into()))?;
        let folder = TempDir::new_in(&place).map_err(Error::file("making a folder in", place))?;
        place::made(folder.path());
        Ok(Scratch { folder, _held: held })
    }

    /// The file of this path below the cache, made by `make` if it is not
    /// there; what is half made is never seen.
    pub(crate) fn file(
        &self,
        name: &Path,
        make: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if path.exists() {
            return Ok(path);
        }
        let bytes = make()?;
        let scratch = self.scratch()?;
        let half = scratch.path().join("half");
        fs::write(&half, bytes).map_err(Error::file("writing", &half))?;
        let folder = path.parent().expect("it is below the cache");
        fs::create_dir_all(folder).map_err(Error::file("making", folder))?;
        fs::rename(&half, &path).map_err(Error::file("writing", &path))?;
        Ok(path)
    }
}

/// Gives a finished folder its name.
pub(crate) fn publish(mut folder: Scratch, target: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let parent = target.parent().expect("it is below the cache");
    fs::create_dir_all(parent).map_err(Error::file("making", parent))?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).map_err(Error::file("opening", folder.path()))?;
    fs::rename(folder.path(), target).map_err(Error::file("making", target))?;
    // Nothing is left under its old name to remove.
    folder.folder.disable_cleanup(true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_lab_left_goes_with_the_next_one_and_what_is_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let left = cache.folder().join("scratch/left");
        fs::create_dir_all(left.join("usr")).unwrap();
        let one = cache.scratch().unwrap();
        assert!(one.path().is_dir() && !left.exists());
        let two = cache.scratch().unwrap();
        assert!(one.path().is_dir() && two.path().is_dir());
        fs::write(two.path().join("file"), "text").unwrap();
        publish(two, &cache.folder().join("packages/p")).unwrap();
        drop(one);
        assert!(cache.folder().join("packages/p/file").is_file());
        assert_eq!(fs::read_dir(cache.folder().join("scratch")).unwrap().count(), 0);
    }
}
