//! System calls that are often refused: tried, and the refusal explained.

use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::thread::{
    MembarrierQuery, SecureComputingMode, membarrier_query, secure_computing_mode,
};

use super::host::{Host, status_field};
use super::{Finding, Topic};
use crate::syscall;

const IO_URING: Topic = Topic {
    part: "parasc",
    thing: "io_uring",
    consequence: "parallel system calls run on processing threads only; the io_uring backend and \
                  its comparison are left out",
};
const SECCOMP: Topic = Topic {
    part: "parasc",
    thing: "unfiltered system calls (no seccomp)",
    consequence: "each system call costs a filter's run, some may be refused, and io_uring, whose \
                  calls a filter does not see, is not used unasked",
};
const MEMBARRIER: Topic = Topic {
    part: "wait",
    thing: "private expedited membarrier",
    consequence: "the waker must order its store by a locked instruction, which makes each fork \
                  some 100 ns dearer",
};
pub(super) fn findings(host: &Host) -> Vec<Finding> {
    let status = host.read("/proc/self/status");
    let filtered = status.as_deref().is_ok_and(is_filtered_by);
    let sysctl = host.number("/proc/sys/kernel/io_uring_disabled").ok();
    vec![
        explain_io_uring(try_io_uring(), sysctl, filtered),
        match &status {
            Ok(status) => seccomp(status),
            Err(reason) => SECCOMP.unknown(reason),
        },
        membarrier(membarrier_query()),
    ]
}

/// Whether the calling thread can have io_uring, and why not.
pub fn io_uring() -> Finding {
    let sysctl = Host::running().number("/proc/sys/kernel/io_uring_disabled").ok();
    explain_io_uring(try_io_uring(), sysctl, is_filtered() == Some(true))
}

/// Whether a seccomp filter looks at the system calls of the calling thread, which
/// has filters of its own; `None` if one forbids the question. `PR_GET_SECCOMP`,
/// prctl(2): some 100 ns.
pub fn is_filtered() -> Option<bool> {
    match secure_computing_mode() {
        Ok(mode) => Some(mode != SecureComputingMode::Disabled),
        // The kernel has no seccomp.
        Err(Errno::INVAL) => Some(false),
        Err(_) => None,
    }
}

/// Sets a ring of one entry up and throws it away.
fn try_io_uring() -> Result<(), Errno> {
    // `struct io_uring_params`: 120 bytes, all of them zero for no wishes.
    let mut params = [0u64; 15];
    let args = [1, params.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: the kernel reads and writes 120 bytes at `params`.
    let fd = unsafe { syscall::call(libc::SYS_io_uring_setup as usize, args) }?;
    close(fd);
    Ok(())
}

fn close(fd: u64) {
    // SAFETY: the kernel has just made the descriptor for us; nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
}

/// `sysctl`: 0 everybody, 1 only with CAP_SYS_ADMIN or in
/// `kernel.io_uring_group`, 2 nobody (Documentation/admin-guide/sysctl/kernel.rst).
fn explain_io_uring(tried: Result<(), Errno>, sysctl: Option<u64>, filtered: bool) -> Finding {
    let allow = "allow io_uring_setup, io_uring_enter and io_uring_register in the container's \
                 seccomp profile";
    match tried {
        Ok(()) => IO_URING.present("a ring could be set up"),
        Err(Errno::PERM) => match sysctl {
            Some(2) => IO_URING.absent(
                "kernel.io_uring_disabled = 2: nobody may",
                "sysctl kernel.io_uring_disabled=0",
            ),
            Some(1) => IO_URING.absent(
                "kernel.io_uring_disabled = 1: only root and one group may",
                "sysctl kernel.io_uring_disabled=0, or join the group kernel.io_uring_group",
            ),
            _ if filtered => IO_URING.absent("a seccomp filter refuses it (EPERM)", allow),
            _ => IO_URING
                .absent("refused (EPERM)", "look for a security module's rule (SELinux, AppArmor)"),
        },
        Err(Errno::NOSYS) if filtered => {
            IO_URING.absent("ENOSYS: the kernel lacks it or a seccomp filter says so", allow)
        }
        Err(Errno::NOSYS) => {
            IO_URING.absent("ENOSYS: the kernel lacks it", "a kernel with CONFIG_IO_URING")
        }
        Err(Errno::NOMEM) => IO_URING
            .limited("ENOMEM: locked memory is used up", "raise RLIMIT_MEMLOCK (`ulimit -l`)"),
        Err(errno) => IO_URING.unknown(format!("io_uring_setup: {errno}")),
    }
}

fn is_filtered_by(status: &str) -> bool {
    status_field(status, "Seccomp").is_some_and(|mode| mode != "0")
}

/// `Seccomp:` 0 none, 1 strict, 2 filter; `Seccomp_filters:` since Linux 5.9.
fn seccomp(status: &str) -> Finding {
    let filters = status_field(status, "Seccomp_filters");
    match status_field(status, "Seccomp") {
        None => SECCOMP.present("the kernel has no seccomp"),
        Some("0") => SECCOMP.present("no filter"),
        Some(mode) => {
            let filters = filters.map_or(String::new(), |n| format!(", {n} filters"));
            SECCOMP.limited(
                format!("seccomp mode {mode}{filters}"),
                "run outside the sandbox, or `docker run --security-opt seccomp=…` with a profile \
                 of your own",
            )
        }
    }
}

fn membarrier(commands: MembarrierQuery) -> Finding {
    if commands.contains(MembarrierQuery::PRIVATE_EXPEDITED) {
        MEMBARRIER.present("the kernel offers it")
    } else if commands.is_empty() {
        MEMBARRIER.absent(
            "membarrier is missing or filtered",
            "a kernel with CONFIG_MEMBARRIER; a seccomp profile that allows membarrier",
        )
    } else {
        MEMBARRIER.absent("only the slow kinds are there", "Linux 4.14 or newer")
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn each_refusal_of_io_uring_has_its_reason() {
        let finding = explain_io_uring(Ok(()), Some(0), true);
        assert_eq!(finding.state, State::Present);
        for (errno, sysctl, filtered, word) in [
            (Errno::PERM, Some(2), true, "kernel.io_uring_disabled = 2"),
            (Errno::PERM, Some(1), false, "one group"),
            (Errno::PERM, Some(0), true, "seccomp filter"),
            (Errno::PERM, None, false, "refused (EPERM)"),
            (Errno::NOSYS, None, false, "the kernel lacks it"),
            (Errno::NOSYS, None, true, "or a seccomp filter"),
        ] {
            let finding = explain_io_uring(Err(errno), sysctl, filtered);
            assert_eq!(finding.state, State::Absent);
            assert!(finding.detail.contains(word), "{}", finding.detail);
            assert!(finding.remedy.is_some());
        }
        assert_eq!(explain_io_uring(Err(Errno::NOMEM), None, false).state, State::Limited);
        assert_eq!(explain_io_uring(Err(Errno::MFILE), None, false).state, State::Unknown);
    }

    #[test]
    fn seccomp_is_read_from_status() {
        let status = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert!(is_filtered_by(status));
        let finding = seccomp(status);
        assert_eq!(finding.state, State::Limited);
        assert_eq!(finding.detail, "seccomp mode 2, 3 filters");
        assert_eq!(seccomp("Seccomp:\t0\n").state, State::Present);
        assert_eq!(seccomp("Name:\tSeccomp: 2\n").state, State::Present);
        assert!(!is_filtered_by("Seccomp:\t0\n"));
    }

    #[test]
    fn membarrier_by_what_is_offered() {
        let all = MembarrierQuery::PRIVATE_EXPEDITED | MembarrierQuery::GLOBAL;
        assert_eq!(membarrier(all).state, State::Present);
        assert!(membarrier(MembarrierQuery::GLOBAL).detail.contains("slow"));
        assert!(membarrier(MembarrierQuery::empty()).detail.contains("missing"));
    }

    #[test]
    fn the_probes_leave_no_descriptor() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        for _ in 0..64 {
            let _ = try_io_uring();
        }
        // Tests in parallel hold a few; 64 leaked ones would show.
        assert!(open() < before + 64);
    }
}
