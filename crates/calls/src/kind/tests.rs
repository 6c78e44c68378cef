use kumiki_sys::syscall;
use proptest::prelude::*;

use super::*;
use crate::callset::NUMBERS;

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
        place: Place::NONE,
    }
}

const CWD: u64 = libc::AT_FDCWD as u64;

#[test]
fn calls_contend_as_the_kernel_locks() {
    for name in ["mmap", "munmap", "mprotect", "mremap", "brk", "madvise", "mlock", "shmat"] {
        assert_eq!(of(name).contends, Contends::AddressSpace, "{name}");
    }
    for name in ["read", "write", "pread64", "lseek", "getdents64", "ftruncate", "fstat"] {
        assert_eq!(of(name).contends, Contends::Descriptor(0), "{name}");
    }
    assert_eq!(of("copy_file_range").contends, Contends::Descriptor(2));
    for name in ["unlink", "rename", "mkdir", "rmdir", "link", "symlink", "mknod", "creat"] {
        assert_eq!(of(name).contends, Contends::Directory(None), "{name}");
    }
    assert_eq!(of("unlinkat").contends, Contends::Directory(Some(0)));
    assert_eq!(of("symlinkat").contends, Contends::Directory(Some(1)));
    assert_eq!(of("linkat").contends, Contends::Directory(Some(2)));
    // Those that gain most by many threads are not held back by a place.
    for name in ["fsync", "fdatasync", "sync_file_range", "nanosleep", "statx", "getppid"] {
        assert_eq!(of(name).contends, Contends::Nothing, "{name}");
    }
    for number in NUMBERS as u16..=u16::MAX {
        assert_eq!(kind(number), Kind::UNKNOWN);
    }
}

#[test]
fn a_descriptor_is_a_place_and_the_working_directory_is_none() {
    let place = |name, args: &[u64]| default_place(&request(name, args));
    assert_eq!(place("read", &[0, 0x1000, 1]), Place(1));
    assert_eq!(place("write", &[7, 0x1000, 1]), place("lseek", &[7, 0, 0]));
    assert_ne!(place("read", &[7, 0x1000, 1]), place("read", &[8, 0x1000, 1]));
    assert_eq!(place("splice", &[3, 0, 4, 0, 1, 0]), Place(5));
    assert_eq!(place("sendfile", &[3, 4, 0, 1]), Place(4));
    // The kernel looks at the lower half.
    assert_eq!(place("read", &[0xdead_beef_0000_0007, 0x1000, 1]), Place(8));
    assert_eq!(place("read", &[i32::MAX as u64, 0x1000, 1]), Place(0x8000_0000));
    for bad in [u64::MAX, u32::MAX.into(), 0x8000_0000] {
        assert_eq!(place("read", &[bad, 0x1000, 1]), Place::NONE);
    }
    assert_eq!(place("read", &[]), Place::NONE);

    assert_eq!(place("unlinkat", &[5, 0x1000, 0]), Place(6));
    assert_eq!(place("unlinkat", &[CWD, 0x1000, 0]), Place::NONE);
    assert_eq!(place("linkat", &[5, 0x1000, 6, 0x1000, 0]), Place(7));
    assert_eq!(place("unlink", &[0x1000]), Place::NONE);
    assert_eq!(place("mmap", &[0, 4096, 1, 2, 3, 0]), Place::NONE);
}

#[test]
fn an_open_that_creates_contends_in_the_directory() {
    let openat = |flags: i32| default_place(&request("openat", &[5, 0x1000, flags as u64, 0o600]));
    assert_eq!(openat(libc::O_RDONLY), Place::NONE);
    assert_eq!(openat(libc::O_WRONLY | libc::O_CREAT), Place(6));
    assert_eq!(openat(libc::O_RDWR | libc::O_TMPFILE), Place::NONE);
    assert_eq!(default_place(&request("openat", &[5, 0x1000])), Place::NONE);
}

#[test]
fn calls_that_wait_are_expected_to() {
    let sleeps = |name, args: &[u64]| may_sleep(&request(name, args));
    for name in ["fsync", "fdatasync", "sync", "syncfs", "nanosleep", "accept", "connect", "semop"]
    {
        assert!(of(name).sleeps, "{name}");
        assert!(sleeps(name, &[3, 0, 0]), "{name}");
    }
    for name in ["read", "statx", "openat", "unlink", "mmap", "getppid", "sched_yield"] {
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
    for (name, waits, looks) in both_ways {
        assert!(sleeps(name, &waits), "{name} {waits:?}");
        assert!(!sleeps(name, &looks), "{name} {looks:?}");
    }
}

#[test]
fn a_kind_tells_which_argument_is_the_place() {
    for number in 0..NUMBERS as u16 {
        let kind = kind(number);
        if let Contends::Descriptor(arg) | Contends::Directory(Some(arg)) = kind.contends {
            assert!(usize::from(arg) < MAX_ARGS, "{number}");
        }
        let openat = syscall::number("openat") == Some(number.into());
        let args = [7; MAX_ARGS];
        let request = Request { sysnum: number, args_num: 6, args, place: Place::NONE };
        let has_place = !matches!(
            kind.contends,
            Contends::AddressSpace | Contends::Directory(None) | Contends::Nothing
        );
        // 7 has no O_CREAT in it.
        assert_eq!(default_place(&request) == Place(8), has_place && !openat, "{number}");
        if syscall::name(number.into()).is_none() {
            assert_eq!(kind, Kind::UNKNOWN, "{number}");
        }
    }
}

proptest! {
    #[test]
    fn any_request_has_a_place_of_a_descriptor_it_names(
        sysnum in 0u16..600, args_num: u16, args: [u64; 6],
    ) {
        let request = Request { sysnum, args_num, args, place: Place::NONE };
        let place = default_place(&request);
        if place != Place::NONE {
            let given = args_num.min(6).into();
            let fds: Vec<u64> = args[..given].iter().map(|&arg| u64::from(arg as u32)).collect();
            prop_assert!(fds.contains(&(place.0 - 1)), "{place:?} of {fds:?}");
        }
        may_sleep(&request);
    }
}
