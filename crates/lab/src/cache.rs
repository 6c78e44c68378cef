//! What labs keep between runs: Debian's packages unpacked, kernels
//! uncompressed, logs of runs that failed. All of it can be had again, so the
//! folder may be removed at any time when no lab is starting.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::error::{Error, Result};

/// The folder of what is kept.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
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
        Self::at(&base.cache_dir().join("kumiki/lab"))
    }

    /// In this folder, which is made if need be.
    pub fn at(folder: &Path) -> Result<Self> {
        for part in ["locks", "scratch", "packages"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(Error::file("making", part))?;
        }
        // apt and chroot are given paths from other folders than ours.
        let folder = folder.canonicalize().map_err(Error::file("finding", folder))?;
        Ok(Cache { folder })
    }

    /// Where it is.
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
    pub(crate) fn scratch(&self) -> Result<TempDir> {
        let place = self.folder.join("scratch");
        TempDir::new_in(&place).map_err(Error::file("making a folder in", place))
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
pub(crate) fn publish(folder: TempDir, target: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let parent = target.parent().expect("it is below the cache");
    fs::create_dir_all(parent).map_err(Error::file("making", parent))?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).map_err(Error::file("opening", folder.path()))?;
    fs::rename(folder.path(), target).map_err(Error::file("making", target))?;
    // Nothing is left under its old name to remove.
    let _ = folder.keep();
    Ok(())
}
