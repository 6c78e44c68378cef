//! Room that the machine and the control groups of this process leave: for threads, and for what is read ahead. Called by
//! the pool's threads, which open files in a table of their own.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::folder::{identity, identity_of};

/// Share of the processes that a user may have, and of those that are left in a control group.
const SHARE: u64 = 10;
const SHARE_OF_GROUP: u64 = 4;
/// Share of the memory that is available.
const SHARE_OF_MEMORY: u64 = 16;
/// Memory of a name that is looked up: the kernel's entry and its file.
const NAME_BYTES: u64 = 2048;
/// Longest text that is read; paths of groups are shorter.
const BYTES: usize = 4096;

/// The most threads, of as many as are wanted. Others of this user and this group have processes, too.
pub(crate) fn threads(wanted: u64) -> u64 {
    let of_user = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX) / SHARE;
    let of_group = left(&PIDS).map_or(u64::MAX, |left| left / SHARE_OF_GROUP);
    wanted.min(of_user).min(of_group)
}

/// The most bytes and names ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) bytes: u64,
    pub(crate) names: u32,
}

/// Room ahead by the memory that is left; where nothing says how much that is, the settings bound it.
pub(crate) fn ahead() -> Ahead {
    let mut buffer = [0; BYTES];
    let of_machine = meminfo(&mut buffer).and_then(available).unwrap_or(u64::MAX);
    let left = of_machine.min(left(&MEMORY).unwrap_or(u64::MAX)) / SHARE_OF_MEMORY;
    Ahead { bytes: left, names: u32::try_from(left / NAME_BYTES).unwrap_or(u32::MAX) }
}

/// The kernel's own /proc/meminfo: in a container it may be another process's file, which may not answer.
fn meminfo(buffer: &mut [u8]) -> Option<&str> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open(c"/proc", flags, Mode::empty()).ok()?;
    let (flags, resolve) = (OFlags::RDONLY | OFlags::CLOEXEC, ResolveFlags::NO_XDEV);
    let opened = match openat2(&proc, MEMINFO, flags, Mode::empty(), resolve) {
        // Before Linux 5.6, or where a filter refuses it.
        Err(Errno::NOSYS | Errno::PERM) if is_of(&proc, MEMINFO) => {
            openat(&proc, MEMINFO, flags, Mode::empty())
        }
        opened => opened,
    };
    text_of(opened.ok()?, buffer)
}

const MEMINFO: &CStr = c"meminfo";

/// True for a file of the same file system as its folder.
fn is_of(folder: &OwnedFd, name: &CStr) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let look = statx(folder, name, flags, StatxFlags::INO).map(|look| identity_of(&look));
    let above = identity(folder.as_fd());
    look.is_ok_and(|(device, _)| above.is_some_and(|(of_folder, _)| of_folder == device))
}

/// Memory that is available by /proc/meminfo, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Names of a limit and of what is used of it, in both forms of control groups.
struct Limit {
    controller: &'static str,
    new: [&'static str; 2],
    old: [&'static str; 2],
    /// Name in `memory.stat` of memory that is counted as used and comes back when it is asked for.
    comes_back: Option<[&'static str; 2]>,
}

const PIDS: Limit = Limit {
    controller: "pids",
    new: ["pids.max", "pids.current"],
    old: ["pids.max", "pids.current"],
    comes_back: None,
};
const MEMORY: Limit = Limit {
    controller: "memory",
    new: ["memory.max", "memory.current"],
    old: ["memory.limit_in_bytes", "memory.usage_in_bytes"],
    comes_back: Some(["inactive_file ", "total_inactive_file "]),
};

/// The rest of a limit in the groups of this process and all above; none if nothing limits it.
fn left(limit: &Limit) -> Option<u64> {
    let mut buffer = [0; BYTES];
    let groups = read(c"/proc/self/cgroup", &mut buffer)?;
    groups.lines().filter_map(|line| left_by(line, limit)).min()
}

fn left_by(line: &str, limit: &Limit) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let comes_back = |at: usize| limit.comes_back.and_then(|names| names.get(at).copied());
    let (below, files, comes_back) = if controllers.is_empty() {
        ("", limit.new, comes_back(0))
    } else if controllers.split(',').any(|one| one == limit.controller) {
        (limit.controller, limit.old, comes_back(1))
    } else {
        return None;
    };
    // Each group, from the innermost one to the root.
    let ends = path.rmatch_indices('/').map(|(at, _)| path.get(..at));
    let all = std::iter::once(Some(path.trim_end_matches('/'))).chain(ends).flatten();
    all.filter_map(|path| left_in(below, path, files, comes_back)).min()
}

fn left_in(
    below: &str,
    path: &str,
    [most, used]: [&str; 2],
    comes_back: Option<&str>,
) -> Option<u64> {
    let most = number(below, path, most)?;
    let used = number(below, path, used).unwrap_or(0);
    // A group that has read as much as its limit is as it always is.
    let back = comes_back.and_then(|name| {
        let mut buffer = [0; BYTES];
        stated(file(below, path, "memory.stat", &mut buffer)?, name)
    });
    Some(most.saturating_sub(used.saturating_sub(back.unwrap_or(0))))
}

/// The number behind a name in a group's `memory.stat`.
fn stated(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The number in a file of a group; none for `max`.
fn number(below: &str, path: &str, name: &str) -> Option<u64> {
    let mut buffer = [0; 32];
    file(below, path, name, &mut buffer)?.trim().parse().ok()
}

/// A file of a group.
fn file<'buffer>(
    below: &str,
    path: &str,
    file: &str,
    buffer: &'buffer mut [u8],
) -> Option<&'buffer str> {
    let mut name = [0; BYTES];
    let mut rest = &mut name[..];
    let slash = if below.is_empty() { "" } else { "/" };
    write!(rest, "/sys/fs/cgroup{slash}{below}{path}/{file}\0").ok()?;
    read(CStr::from_bytes_until_nul(&name).ok()?, buffer)
}

fn read<'buffer>(path: &CStr, buffer: &'buffer mut [u8]) -> Option<&'buffer str> {
    text_of(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?, buffer)
}

fn text_of(file: OwnedFd, buffer: &mut [u8]) -> Option<&str> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&file, rest).ok()? {
            0 => break,
            more => length += more,
        }
    }
    // What is longer is cut, maybe within a letter; the first lines are whole.
    let bytes = buffer.get(..length)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_text() {
        let text = "MemTotal:  100 kB\nMemAvailable:   4096 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(4096 << 10));
        assert_eq!((available("MemTotal: 1 kB\n"), available("MemAvailable: x kB")), (None, None));
        let stat = "anon 4096\nactive_file 9\ninactive_file 8192\ntotal_inactive_file 5\n";
        assert_eq!(stated(stat, "inactive_file "), Some(8192));
        assert_eq!(stated(stat, "total_inactive_file "), Some(5));
        let proc = rustix::fs::open(c"/proc", OFlags::PATH, Mode::empty()).unwrap();
        assert!(is_of(&proc, MEMINFO) && !is_of(&proc, c"../etc") && !is_of(&proc, c"nothing"));
        assert!(available(meminfo(&mut [0; BYTES]).unwrap()).is_some_and(|bytes| bytes > 1 << 20));
        let ahead = ahead();
        assert!(ahead.bytes > 0 && ahead.names > 0, "{ahead:?}");
    }

    #[test]
    fn threads_are_no_more_than_wanted() {
        assert!((1..=32).contains(&threads(32)));
        assert_eq!(threads(0), 0);
    }

    #[test]
    fn lines_of_other_controllers_and_broken_ones_limit_nothing() {
        for line in ["3:cpu,cpuacct:/a/b", "x", "", "1:", "1:pids"] {
            assert_eq!(left_by(line, &PIDS), None, "{line:?}");
        }
        // Groups that are not there.
        assert_eq!(left_by("8:pids:/no/such/group", &PIDS), left_by("8:pids:/", &PIDS));
    }
}
