//! Room that the machine and the control groups of this process leave: for threads, and for what is read ahead. Called by
//! the pool's threads, which open files in a table of their own.

use std::ffi::CStr;
use std::io::Write;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};

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

/// Room ahead by the memory that is left. Without /proc it is as if there were none.
pub(crate) fn ahead() -> Ahead {
    let mut buffer = [0; BYTES];
    let of_machine = read(c"/proc/meminfo", &mut buffer).and_then(available).unwrap_or(0);
    let left = of_machine.min(left(&MEMORY).unwrap_or(u64::MAX)) / SHARE_OF_MEMORY;
    Ahead { bytes: left, names: u32::try_from(left / NAME_BYTES).unwrap_or(u32::MAX) }
}

/// What is available by /proc/meminfo, in bytes.
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
}

const PIDS: Limit = Limit {
    controller: "pids",
    new: ["pids.max", "pids.current"],
    old: ["pids.max", "pids.current"],
};
const MEMORY: Limit = Limit {
    controller: "memory",
    new: ["memory.max", "memory.current"],
    old: ["memory.limit_in_bytes", "memory.usage_in_bytes"],
};

/// What is left of a limit in the groups of this process and all above; none if nothing limits it.
fn left(limit: &Limit) -> Option<u64> {
    let mut buffer = [0; BYTES];
    let groups = read(c"/proc/self/cgroup", &mut buffer)?;
    groups.lines().filter_map(|line| left_by(line, limit)).min()
}

fn left_by(line: &str, limit: &Limit) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (below, files) = if controllers.is_empty() {
        ("", limit.new)
    } else if controllers.split(',').any(|one| one == limit.controller) {
        (limit.controller, limit.old)
    } else {
        return None;
    };
    // Each group, from the innermost one to the root.
    let ends = path.rmatch_indices('/').map(|(at, _)| path.get(..at));
    let all = std::iter::once(Some(path.trim_end_matches('/'))).chain(ends).flatten();
    all.filter_map(|path| left_in(below, path, files)).min()
}

fn left_in(below: &str, path: &str, [most, used]: [&str; 2]) -> Option<u64> {
    let most = number(below, path, most)?;
    Some(most.saturating_sub(number(below, path, used).unwrap_or(0)))
}

/// The number in a file of a group; none for `max`.
fn number(below: &str, path: &str, file: &str) -> Option<u64> {
    let mut name = [0; BYTES];
    let mut rest = &mut name[..];
    let slash = if below.is_empty() { "" } else { "/" };
    write!(rest, "/sys/fs/cgroup{slash}{below}{path}/{file}\0").ok()?;
    let mut buffer = [0; 32];
    read(CStr::from_bytes_until_nul(&name).ok()?, &mut buffer)?.trim().parse().ok()
}

fn read<'buffer>(path: &CStr, buffer: &'buffer mut [u8]) -> Option<&'buffer str> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
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
