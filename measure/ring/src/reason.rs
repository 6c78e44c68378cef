//! Why the kernel sets no ring up.

use std::{fs, io};

use io_uring::IoUring;
use kumiki_sys::{Errno, seccomp};

use crate::lack::Lack;

/// Reason for which there is no ring, where setting one up has failed with `error`.
pub(crate) fn lack(error: &io::Error) -> Lack {
    match IoUring::new(1) {
        // A small one can be had: this one was too large, or descriptors are out.
        Ok(_) => Lack::new(
            format!("io_uring_setup: {error}"),
            "raise RLIMIT_MEMLOCK (`ulimit -l`) or RLIMIT_NOFILE (`ulimit -n`), or configure \
             fewer slots",
        ),
        Err(small) => explain(&small, sysctl(), seccomp::is_filtered() == Some(true)),
    }
}

/// `kernel.io_uring_disabled`: 0 everybody, 1 only with CAP_SYS_ADMIN or in
/// `kernel.io_uring_group`, 2 nobody (Documentation/admin-guide/sysctl/kernel.rst).
fn sysctl() -> Option<u64> {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

fn explain(error: &io::Error, sysctl: Option<u64>, filtered: bool) -> Lack {
    let allow = "allow io_uring_setup, io_uring_enter and io_uring_register in the container's \
                 seccomp profile";
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => match sysctl {
            Some(2) => Lack::new(
                "kernel.io_uring_disabled = 2: nobody may",
                "sysctl kernel.io_uring_disabled=0",
            ),
            Some(1) => Lack::new(
                "kernel.io_uring_disabled = 1: only root and one group may",
                "sysctl kernel.io_uring_disabled=0, or join the group kernel.io_uring_group",
            ),
            _ if filtered => Lack::new("a seccomp filter refuses it (EPERM)", allow),
            _ => Lack::new(
                "refused (EPERM)",
                "look for a security module's rule (SELinux, AppArmor)",
            ),
        },
        Some(Errno::NOSYS) if filtered => {
            Lack::new("ENOSYS: the kernel lacks it or a seccomp filter says so", allow)
        }
        Some(Errno::NOSYS) => {
            Lack::new("ENOSYS: the kernel lacks it", "a kernel with CONFIG_IO_URING")
        }
        Some(Errno::NOMEM) => {
            Lack::new("ENOMEM: locked memory is used up", "raise RLIMIT_MEMLOCK (`ulimit -l`)")
        }
        _ => Lack::new(format!("io_uring_setup: {error}"), "choose backend user"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_io_uring_has_its_reason() {
        for (errno, sysctl, filtered, word) in [
            (Errno::PERM, Some(2), true, "kernel.io_uring_disabled = 2"),
            (Errno::PERM, Some(1), false, "one group"),
            (Errno::PERM, Some(0), true, "seccomp filter"),
            (Errno::PERM, None, false, "refused (EPERM)"),
            (Errno::NOSYS, None, false, "the kernel lacks it"),
            (Errno::NOSYS, None, true, "or a seccomp filter"),
            (Errno::NOMEM, None, false, "locked memory"),
            (Errno::MFILE, None, false, "io_uring_setup"),
        ] {
            let lack = explain(&errno.into(), sysctl, filtered);
            assert!(lack.reason.contains(word), "{}", lack.reason);
        }
    }
}
