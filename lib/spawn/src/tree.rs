//! A child and all that comes of it, to be ended at once.

use std::fs::{self, File};
use std::io::{self, Write};
use std::iter;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstatfs, mkdirat, openat, unlinkat};
use rustix::io::Errno;

/// Means by which its processes are known.
#[derive(Debug)]
pub(crate) enum Tree {
    Cgroup(Cgroup),
    /// A process group by the child's number, as long as nobody has waited for it.
    Group,
}

/// A cgroup of its own. Dropping it takes its folder away; processes that are left go on in the
/// one around.
#[derive(Debug)]
pub(crate) struct Cgroup {
    around: OwnedFd,
    name: String,
    folder: OwnedFd,
    kill: File,
    /// The process that has made it, not a child of fork(2).
    of: u32,
}

/// Type of a cgroup file system (statfs(2)).
const CGROUP2: u32 = 0x6367_7270;
/// Number of names that are tried, where others are taken.
const NAMES: usize = 1000;
/// Number of times the rest is moved: it may make more of itself meanwhile.
const TURNS: usize = 20;

impl Cgroup {
    /// Makes a cgroup within another, or in the caller's own; `None` where it cannot be made, or
    /// not be ended.
    pub(crate) fn make(around: Option<BorrowedFd<'_>>) -> Option<Cgroup> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let around = match around {
            Some(around) => around.try_clone_to_owned().ok()?,
            None => openat(CWD, own()?, folder_flags(), Mode::empty()).ok()?,
        };
        if fstatfs(&around).ok()?.f_type as u32 != CGROUP2 {
            return None;
        }
        // One of a process that was killed and had this one's number is still there.
        let name = iter::repeat_with(|| {
            let number = NUMBER.fetch_add(1, Relaxed);
            format!("kumiki-{}-{number}", process::id())
        })
        .take(NAMES)
        .find_map(|name| {
            match mkdirat(&around, &name, Mode::from_raw_mode(0o755)) {
                Ok(()) => Some(Some(name)),
                Err(Errno::EXIST) => None,
                Err(_) => Some(None),
            }
        })??;
        let opened = openat(&around, &name, folder_flags(), Mode::empty()).and_then(|folder| {
            let kill =
                openat(&folder, "cgroup.kill", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            Ok((folder, File::from(kill)))
        });
        match opened {
            Ok((folder, kill)) => Some(Cgroup { around, name, folder, kill, of: process::id() }),
            Err(_) => {
                let _ = unlinkat(&around, &name, AtFlags::REMOVEDIR);
                None
            }
        }
    }

    /// Folder for a child to begin in.
    pub(crate) fn folder(&self) -> io::Result<OwnedFd> {
        self.folder.try_clone()
    }

    /// Ends all that is in it.
    pub(crate) fn kill(&self) -> io::Result<()> {
        (&self.kill).write_all(b"1")
    }

    fn remove(&self) -> bool {
        unlinkat(&self.around, &self.name, AtFlags::REMOVEDIR).is_ok()
    }

    fn move_out(&self) -> io::Result<()> {
        let within =
            |folder: &OwnedFd| format!("/proc/self/fd/{}/cgroup.procs", folder.as_raw_fd());
        for process in fs::read_to_string(within(&self.folder))?.lines() {
            // It may have ended.
            let _ = fs::write(within(&self.around), process);
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if self.of != process::id() {
            return;
        }
        for _ in 0..TURNS {
            if self.remove() || self.move_out().is_err() || self.remove() {
                return;
            }
            // Those that were ended are on their way.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// The calling process's folder: where a cgroup2 file system is mounted, and its place there.
fn own() -> Option<PathBuf> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let place = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        if behind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        // Its root may be a folder of the hierarchy; one outside of it is not to be reached.
        let place = Path::new(place).strip_prefix(root).ok()?;
        Some(Path::new(at).join(place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_a_killed_process_has_left_are_in_nobody_s_way() {
        let Some(first) = Cgroup::make(None) else {
            return println!("skipped: no cgroup can be made here");
        };
        let number: u64 = first.name.rsplit('-').next().unwrap().parse().unwrap();
        let left: Vec<_> = (1..=9)
            .map(|n| format!("kumiki-{}-{}", process::id(), number + n))
            .filter(|name| mkdirat(&first.around, name, Mode::from_raw_mode(0o755)).is_ok())
            .collect();
        let next = Cgroup::make(None);
        for name in &left {
            unlinkat(&first.around, name, AtFlags::REMOVEDIR).unwrap();
        }
        assert!(!left.is_empty() && next.is_some());
    }
}
