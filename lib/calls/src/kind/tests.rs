use kumiki_sys::syscall::{self, MAX_ARGS};
use proptest::prelude::*;

use super::*;
use crate::callset::NUMBERS;

/// Tells if this processor's table has it: x86-64's has all that there is.
fn is_here(name: &str) -> bool {
    cfg!(target_arch = "x86_64") || syscall::number(name).is_some()
}

fn of(name: &str) -> Kind {
    kind(syscall::number(name).unwrap() as u16)
}

fn request(name: &str, args: &[u64]) -> Request {
    let mut all = [0; MAX_ARGS];
    all[..args.len()].copy_from_slice(args);
    Request {
        sysnum: syscall::number(name).unwrap() as u16,
        args_num: args.len() as u16,
        args: all,
    }
}

#[test]
fn calls_contend_as_the_kernel_locks() {
    for name in ["mmap", "munmap", "mprotect", "mremap", "brk", "madvise", "mlock", "shmat"] {
        assert_eq!(of(name).contends, Contends::AddressSpace, "{name}");
    }
    for name in ["read", "write", "pread64", "lseek", "getdents64", "ftruncate", "fstat"] {
        assert_eq!(of(name).contends, Contends::Descriptor(0), "{name}");
    }
    assert_eq!(of("copy_file_range").contends, Contends::Descriptor(2));
    let names = ["unlink", "rename", "mkdir", "rmdir", "link", "symlink", "mknod", "creat"];
    for name in names.into_iter().filter(|name| is_here(name)) {
        assert_eq!(of(name).contends, Contends::Directory(None), "{name}");
    }
    assert_eq!(of("unlinkat").contends, Contends::Directory(Some(0)));
    assert_eq!(of("symlinkat").contends, Contends::Directory(Some(1)));
    assert_eq!(of("linkat").contends, Contends::Directory(Some(2)));
    // Those that gain most by many threads contend on nothing.
    for name in ["fsync", "fdatasync", "sync_file_range", "nanosleep", "statx", "getppid"] {
        assert_eq!(of(name).contends, Contends::Nothing, "{name}");
    }
    for number in NUMBERS as u16..=u16::MAX {
        assert_eq!(kind(number), Kind::UNKNOWN);
    }
}

#[test]
fn calls_that_wait_are_expected_to() {
    let sleeps = |name, args: &[u64]| may_sleep(&request(name, args));
    for name in ["fsync", "fdatasync", "sync", "syncfs", "nanosleep", "accept", "connect", "semop"]
    {
        assert!(of(name).sleeps, "{name}");
        assert!(sleeps(name, &[3, 0, 0]), "{name}");
    }
    for name in ["read", "statx", "openat", "unlinkat", "mmap", "getppid", "sched_yield"] {
        assert!(!of(name).sleeps, "{name}");
        assert!(!sleeps(name, &[3, 0, 0]), "{name}");
    }
    assert!(!may_sleep(&Request { sysnum: u16::MAX, ..Request::default() }));

    let both_ways = [
        ("fcntl", vec![3, libc::F_SETLKW as u64, 0x1000], vec![3, libc::F_SETLK as u64, 0x1000]),
        ("flock", vec![3, libc::LOCK_EX as u64], vec![3, (libc::LOCK_EX | libc::LOCK_NB) as u64]),
        ("flock", vec![3, libc::LOCK_SH as u64], vec![3, libc::LOCK_UN as u64]),
        (
            "futex",
            vec![0x1000, libc::FUTEX_WAIT as u64, 1],
            vec![0x1000, libc::FUTEX_WAKE as u64, 1],
        ),
        (
            "futex",
            vec![0x1000, (libc::FUTEX_WAIT_BITSET | 128 | 256) as u64, 1],
            vec![0x1000, 129, 1],
        ),
        ("wait4", vec![1, 0, 0, 0], vec![1, 0, libc::WNOHANG as u64, 0]),
        ("waitid", vec![0, 0, 0, 4, 0], vec![0, 0, 0, 5, 0]),
        ("poll", vec![0x1000, 1, u64::MAX], vec![0x1000, 1, 0]),
        ("epoll_wait", vec![3, 0x1000, 1, 10], vec![3, 0x1000, 1, 0]),
        ("recvfrom", vec![3, 0x1000, 1, 0, 0, 0], vec![3, 0x1000, 1, libc::MSG_DONTWAIT as u64]),
        ("recvmsg", vec![3, 0x1000, 0], vec![3, 0x1000, libc::MSG_DONTWAIT as u64]),
        ("msgrcv", vec![3, 0x1000, 1, 0, 0], vec![3, 0x1000, 1, 0, libc::IPC_NOWAIT as u64]),
        ("msync", vec![0x1000, 1, libc::MS_SYNC as u64], vec![0x1000, 1, libc::MS_ASYNC as u64]),
        ("io_getevents", vec![0x1000, 1, 8, 0x1000, 0], vec![0x1000, 0, 8, 0x1000, 0]),
        ("io_uring_enter", vec![3, 0, 1, 1, 0, 0], vec![3, 0, 0, 1, 0, 0]),
    ];
    for (name, waits, looks) in both_ways.into_iter().filter(|(name, ..)| is_here(name)) {
        assert!(sleeps(name, &waits), "{name} {waits:?}");
        assert!(!sleeps(name, &looks), "{name} {looks:?}");
    }
}

#[test]
fn a_kind_tells_what_contends_of_calls_that_there_are() {
    for number in 0..NUMBERS as u16 {
        let kind = kind(number);
        if let Contends::Descriptor(arg) | Contends::Directory(Some(arg)) = kind.contends {
            assert!(usize::from(arg) < MAX_ARGS, "{number}");
        }
        if syscall::name(number.into()).is_none() {
            assert_eq!(kind, Kind::UNKNOWN, "{number}");
        }
    }
}

proptest! {
    #[test]
    fn any_request_may_be_asked_about(sysnum in 0u16..600, args_num: u16, args: [u64; 6]) {
        may_sleep(&Request { sysnum, args_num, args });
    }
}
