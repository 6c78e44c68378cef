//! The folder of files that all subjects work on, one after the other.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags, statfs};
use tempfile::TempDir;

/// Bytes of a read that waits for a disk, and how far two are apart.
pub(crate) const COLD_BYTES: usize = 64 << 10;
pub(crate) const COLD_STEP: usize = 2 * COLD_BYTES;
/// Files of each kind: the largest batch.
pub(crate) const FILES: usize = 300;
/// Bytes of each file, and of each read.
pub(crate) const BLOCK: usize = 4096;

/// TMPFS_MAGIC and RAMFS_MAGIC of include/uapi/linux/magic.h: a file system of
/// memory, where fsync(2) has nothing to do.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Makes the folder with its files, on a disk; it is removed on drop.
pub(crate) fn make() -> Result<TempDir> {
    let own = std::env::current_exe().context("finding our own program")?;
    let candidates = [own.parent().map(Path::to_owned), Some(std::env::temp_dir())];
    let Some(parent) = candidates.into_iter().flatten().find(|folder| on_disk(folder)) else {
        bail!(
            "neither the folder of {} nor that of temporary files is on a disk, which fsync needs: \
             set TMPDIR to one that is",
            own.display()
        );
    };
    let folder = tempfile::Builder::new().prefix("kumiki-bench-").tempdir_in(&parent);
    let folder = folder.with_context(|| format!("making a folder in {}", parent.display()))?;
    Scratch::new(folder.path()).fill()?;
    Ok(folder)
}

fn on_disk(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|about| !MEMORY.contains(&(about.f_type as u64)))
}

/// The names in the folder.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// The folder at this path.
    pub(crate) fn new(root: &Path) -> Self {
        Scratch { root: root.to_owned() }
    }

    fn fill(&self) -> Result<()> {
        let folder = self.root.join("files");
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        for i in 0..FILES {
            let file = self.file(i);
            fs::write(&file, [i as u8; BLOCK]).context(format!("writing {}", file.display()))?;
        }
        let whole = self.whole();
        fs::write(&whole, vec![1; FILES * BLOCK])
            .context(format!("writing {}", whole.display()))?;
        // The parent of directories that belong far from each other: ext4 then
        // spreads them, and their files, over the disk. In one place, new files
        // are soon slow to make, as ext4 searches past those removed in the
        // last minute (recently_deleted in fs/ext4/ialloc.c).
        let spread = self.root.join("spread");
        fs::create_dir(&spread)?;
        let spread = File::open(spread)?;
        if let Ok(flags) = ioctl_getflags(&spread) {
            // Other file systems know no such flag, and need none.
            let _ = ioctl_setflags(&spread, flags | IFlags::TOPDIR);
        }
        Ok(())
    }

    /// A file of [`BLOCK`] bytes.
    pub(crate) fn file(&self, i: usize) -> PathBuf {
        self.root.join(format!("files/{i:03}"))
    }

    /// A file of [`FILES`] times [`BLOCK`] bytes.
    pub(crate) fn whole(&self) -> PathBuf {
        self.root.join("whole")
    }

    /// A file for so many reads that wait for the disk; made, and written, if need be.
    pub(crate) fn cold(&self, reads: usize) -> Result<PathBuf> {
        let path = self.root.join(format!("cold{reads}"));
        if !path.exists() {
            // All subjects begin at the same time: whoever is ready first has made it.
            let own = self.root.join(format!("cold{reads}.{}", std::process::id()));
            let write = || {
                let mut file = File::create(&own)?;
                let step = vec![1; COLD_STEP];
                (0..reads).try_for_each(|_| file.write_all(&step))?;
                // What is dirty stays in the page cache.
                file.sync_all()?;
                fs::rename(&own, &path)
            };
            write().with_context(|| format!("writing {}", own.display()))?;
        }
        Ok(path)
    }

    /// The directory of this name for files that come and go; made if need be.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join("spread").join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("making {}", path.display()))
            }
            _ => Ok(path),
        }
    }
}

/// A path as system calls take it.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).with_context(|| format!("{}", path.display()))
}
