//! Where files lie: a folder on a disk, and for root a file system in memory and one that hangs,
//! which no other process sees.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use nix::sched::CloneFlags;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

/// Folders of one run, gone with it.
#[derive(Debug)]
pub(crate) struct Ground {
    within: PathBuf,
    folder: tempfile::TempDir,
    can_mount: bool,
    mounted: Mutex<Vec<PathBuf>>,
}

impl Ground {
    /// Makes the folder, and, for root, mounts of this process's own. There must be one thread only.
    pub(crate) fn new(within: &Path) -> Result<Ground> {
        let folder = tempfile::Builder::new().prefix("soak-").tempdir_in(within);
        let folder = folder.with_context(|| format!("making a folder in {}", within.display()))?;
        let own = nix::sched::unshare(CloneFlags::CLONE_NEWNS).map_err(std::io::Error::from);
        let alone = || {
            rustix::mount::mount_change(
                "/",
                MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
            )
        };
        let can_mount = own.and_then(|()| Ok(alone()?));
        if let Err(error) = &can_mount {
            println!(
                "no mounts ({error}): without files in memory, full disks and a file system that hangs"
            );
        }
        let within = std::path::absolute(within).context("the folder")?;
        Ok(Ground { within, folder, can_mount: can_mount.is_ok(), mounted: Mutex::default() })
    }

    /// True if folders in memory are of a size of their own, which can be used up.
    pub(crate) fn has_memory(&self) -> bool {
        self.can_mount
    }

    /// The folder in which it lies, where other things may stay.
    pub(crate) fn within(&self) -> &Path {
        &self.within
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the folder, in memory where that can be: of so many bytes at most.
    pub(crate) fn memory(&self, path: &Path, bytes: usize) -> Result<()> {
        std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        if self.can_mount {
            let options = std::ffi::CString::new(format!("size={bytes},mode=755"))?;
            rustix::mount::mount("soak", path, "tmpfs", MountFlags::empty(), Some(&*options))
                .with_context(|| format!("mounting a tmpfs at {}", path.display()))?;
            self.mounted.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
        }
        Ok(())
    }

    /// Mounts a file system at the folder that answers nothing until it is dropped; `None` where
    /// that cannot be.
    pub(crate) fn hang(&self, path: &Path) -> Result<Option<Hanging>> {
        if !self.can_mount {
            return Ok(None);
        }
        std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        let Ok(device) =
            rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        else {
            return Ok(None);
        };
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = std::ffi::CString::new(options)?;
        rustix::mount::mount("soak", path, "fuse", MountFlags::empty(), Some(&*options))
            .with_context(|| format!("mounting a file system that hangs at {}", path.display()))?;
        Ok(Some(Hanging { path: path.to_owned(), device: Some(device) }))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for path in self.mounted.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = rustix::mount::unmount(&*path, UnmountFlags::DETACH);
        }
    }
}

/// A file system whose calls come back when it is dropped.
#[derive(Debug)]
pub(crate) struct Hanging {
    path: PathBuf,
    device: Option<OwnedFd>,
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // Its requests fail then.
        self.device.take();
        let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// Has the kernel forget what it has in memory of a file.
pub(crate) fn make_cold(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    file.sync_data()?;
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}
