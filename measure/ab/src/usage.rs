//! What a process used, as wait4(2) says.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Use of processors, memory and disks by processes that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Processor time in user mode and in the kernel, nanoseconds.
    pub(crate) cpu_ns: [f64; 2],
    pub(crate) max_rss_kib: u64,
    pub(crate) faults: [u64; 2],
    pub(crate) switches: [u64; 2],
    /// Blocks of 512 bytes read from and written to a disk.
    pub(crate) blocks: [u64; 2],
}

impl Usage {
    fn of(usage: &libc::rusage) -> Self {
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        Usage {
            cpu_ns: [ns(usage.ru_utime), ns(usage.ru_stime)],
            max_rss_kib: count(usage.ru_maxrss),
            faults: [count(usage.ru_minflt), count(usage.ru_majflt)],
            switches: [count(usage.ru_nvcsw), count(usage.ru_nivcsw)],
            blocks: [count(usage.ru_inblock), count(usage.ru_oublock)],
        }
    }

    /// Adds the processor time that no parent was told of: of children whose ends are ignored, and of those that still
    /// run. `all_ns` was counted of everybody; what the two clocks differ by in passing is no child's.
    pub(crate) fn add_untold(&mut self, all_ns: f64) {
        let told: f64 = self.cpu_ns.iter().sum();
        if all_ns > told * 1.1 + 1e6 {
            self.cpu_ns[0] += all_ns - told;
        }
    }

    /// Adds another's.
    pub(crate) fn add(&mut self, other: &Usage) {
        for at in [0, 1] {
            self.cpu_ns[at] += other.cpu_ns[at];
            self.faults[at] += other.faults[at];
            self.switches[at] += other.switches[at];
            self.blocks[at] += other.blocks[at];
        }
        self.max_rss_kib = self.max_rss_kib.max(other.max_rss_kib);
    }
}

/// Waits for a child and says what it used, and how long it was ready but others ran,
/// nanoseconds.
pub(crate) fn wait(pid: u32) -> std::io::Result<(ExitStatus, Usage, Option<f64>)> {
    let id = libc::pid_t::try_from(pid).map_err(std::io::Error::other)?;
    let ended = Pid::from_raw(id).ok_or(std::io::ErrorKind::NotFound)?;
    // Until it is waited for, its files of /proc are there.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(error) = waitid(WaitId::Pid(ended), options) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    let waited = waited_ns(&format!("/proc/{pid}/schedstat"));
    match reap(id, 0)? {
        Some((status, usage)) => Ok((status, usage, waited)),
        None => Err(std::io::ErrorKind::NotFound.into()),
    }
}

/// Time that a thread was ready but others ran, by its `schedstat`, nanoseconds.
pub(crate) fn waited_ns(schedstat: &str) -> Option<f64> {
    std::fs::read_to_string(schedstat).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Usage of a child, if it has ended.
pub(crate) fn ended(pid: i32) -> Option<Usage> {
    reap(pid, libc::WNOHANG).ok()?.map(|(_, usage)| usage)
}

fn reap(pid: i32, options: i32) -> std::io::Result<Option<(ExitStatus, Usage)>> {
    let (mut status, mut usage) = (0, none());
    loop {
        // SAFETY: both pointers are to writable values of the types that the kernel fills.
        let ended = unsafe { libc::wait4(pid, &mut status, options, &mut usage) };
        if ended == pid {
            return Ok(Some((ExitStatus::from_raw(status), Usage::of(&usage))));
        }
        if ended == 0 {
            return Ok(None);
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn none() -> libc::rusage {
    // SAFETY: all-zero bytes are a valid `rusage`, a struct of integers.
    unsafe { std::mem::zeroed() }
}

/// The most memory that this program had, kilobytes: a child begins in it. Not getrusage(2)'s, in
/// which is what the program had that this one took the place of.
pub(crate) fn own_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok()).unwrap_or(u64::MAX)
}

fn ns(time: libc::timeval) -> f64 {
    time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_parent_was_told_of_is_added_and_a_clock_s_error_is_not() {
        let told = Usage { cpu_ns: [3e7, 1e7], ..Usage::default() };
        for (all, user) in [(4.3e7, 3e7), (1e7, 3e7), (9e7, 8e7)] {
            let mut usage = told;
            usage.add_untold(all);
            assert_eq!(usage.cpu_ns, [user, 1e7], "{all}");
        }
    }
}
