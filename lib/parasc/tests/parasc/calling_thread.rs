//! That refused calls do hit the thread that makes them, and no other: the facts
//! of this machine's kernel on which the rules stand.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;

use kumiki_parasc::refusal_of;
use kumiki_sys::syscall;

use crate::child::in_a_child;

/// Makes a call that is harmless for a test's process.
fn call<const N: usize>(name: &str, args: [u64; N]) -> Result<u64, String> {
    let number = syscall::number(name).unwrap();
    let mut all = [0; syscall::MAX_ARGS];
    all[..N].copy_from_slice(&args);
    // SAFETY: the calls below change settings of a thread that ends, and limits
    // of this process; their pointers are to locals that live through the call.
    unsafe { syscall::call(number, all) }.map_err(|error| format!("{name}: {error}"))
}

fn refused<const N: usize>(name: &str, args: [u64; N]) -> bool {
    let mut all = [0; syscall::MAX_ARGS];
    all[..N].copy_from_slice(&args);
    refusal_of(syscall::number(name).unwrap() as u16, N as u16, &all).is_some()
}

type Ask = fn() -> Result<u64, String>;

/// Changes something in a new thread; tells what the new thread and this one see
/// of it before and after. `None` where the change is not permitted.
fn seen(what: &str, change: Ask, ask: Ask) -> Option<(u64, u64, u64)> {
    let before = ask().unwrap();
    let there = thread::spawn(move || {
        change()?;
        ask()
    });
    match there.join().unwrap() {
        Ok(there) => Some((before, there, ask().unwrap())),
        Err(error) => {
            println!("skipped: {what} cannot be changed here ({error})");
            None
        }
    }
}

fn is_of_the_thread(what: &str, change: Ask, ask: Ask) {
    if let Some((before, there, here)) = seen(what, change, ask) {
        assert_ne!(there, before, "{what} did not change");
        assert_eq!(here, before, "{what} changed in another thread");
    }
}

fn is_of_the_process(what: &str, change: Ask, ask: Ask) {
    if let Some((before, there, here)) = seen(what, change, ask) {
        assert_ne!(there, before, "{what} did not change");
        assert_eq!(here, there, "{what} did not change in the other thread");
    }
}

const SET_TIMERSLACK: u64 = libc::PR_SET_TIMERSLACK as u64;
const QUERY: u64 = 0xffff_ffff;
const UNAME26: u64 = 0x0020000;
const IDLE: u64 = 3 << 13;
const BEST_EFFORT_7: u64 = 2 << 13 | 7;

fn signal_mask() -> Result<u64, String> {
    let mut mask = 0u64;
    call("rt_sigprocmask", [0, 0, &raw mut mask as u64, 8])?;
    Ok(mask)
}

fn block_usr2() -> Result<u64, String> {
    let mask = 1u64 << (libc::SIGUSR2 - 1);
    call("rt_sigprocmask", [libc::SIG_BLOCK as u64, &raw const mask as u64, 0, 8])
}

#[test]
fn what_is_refused_is_of_the_thread() {
    is_of_the_thread("the signal mask", block_usr2, signal_mask);
    assert!(refused("rt_sigprocmask", [0, 1, 0, 8]));

    is_of_the_thread(
        "the timer slack",
        || call("prctl", [SET_TIMERSLACK, 77_777]),
        || call("prctl", [libc::PR_GET_TIMERSLACK as u64]),
    );
    assert!(refused("prctl", [SET_TIMERSLACK, 77_777]));

    is_of_the_thread(
        "the personality",
        || call("personality", [UNAME26]),
        || call("personality", [QUERY]),
    );
    assert!(refused("personality", [UNAME26]));

    is_of_the_thread(
        "the nice value",
        || match call("getpriority", [0, 0])? {
            1 => Err("it is 19 already".to_owned()),
            _ => call("setpriority", [0, 0, 19]),
        },
        || call("getpriority", [0, 0]),
    );
    assert!(refused("setpriority", [0, 0, 19]));

    is_of_the_thread(
        "the I/O priority",
        || match call("ioprio_get", [1, 0])? {
            IDLE => call("ioprio_set", [1, 0, BEST_EFFORT_7]),
            _ => call("ioprio_set", [1, 0, IDLE]),
        },
        || call("ioprio_get", [1, 0]),
    );
    assert!(refused("ioprio_set", [1, 0, IDLE]));
}

#[test]
fn descriptors_are_parted_by_the_unsharing_close() {
    let file = File::open("/dev/null").unwrap();
    let fd = file.as_raw_fd() as u64;
    let close = [fd, fd, libc::CLOSE_RANGE_UNSHARE.into()];
    assert!(refused("close_range", close));
    let there = thread::spawn(move || {
        call("close_range", close)?;
        Ok::<_, String>(call("fcntl", [fd, libc::F_GETFD as u64]))
    });
    match there.join().unwrap() {
        Ok(there) => {
            assert!(there.is_err(), "still open where it was closed");
            call("fcntl", [fd, libc::F_GETFD as u64]).unwrap();
        }
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn the_clock_of_thread_0_is_that_of_the_calling_thread() {
    let time = |clock: i64| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        call("clock_gettime", [clock as u64, &raw mut time as u64]).unwrap();
        (time.tv_sec, time.tv_nsec)
    };
    let named = i64::from(libc::CLOCK_THREAD_CPUTIME_ID);
    for _ in 0..10 {
        // One clock under two numbers does not go back; two clocks would.
        let times = [time(named), time(-2), time(named), time(-2)];
        assert!(times.is_sorted(), "{times:?}");
    }
    assert!(refused("clock_gettime", [named as u64]) && refused("clock_gettime", [-2i64 as u64]));
}

#[test]
fn what_is_allowed_is_of_the_process() {
    // Another test may be opening or making files.
    in_a_child("calling_thread::what_is_allowed_is_of_the_process", allowed);
}

fn allowed() {
    fn open_files() -> Result<libc::rlimit, String> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        call("getrlimit", [libc::RLIMIT_NOFILE.into(), &raw mut limit as u64])?;
        Ok(limit)
    }
    is_of_the_process(
        "the limit of open files",
        || {
            let mut limit = open_files()?;
            limit.rlim_cur -= 1;
            call("setrlimit", [libc::RLIMIT_NOFILE.into(), &raw const limit as u64])
        },
        || Ok(open_files()?.rlim_cur),
    );
    assert!(!refused("setrlimit", [libc::RLIMIT_NOFILE.into(), 0x7000]));

    fn umask() -> Result<u64, String> {
        // The only way to ask is to set.
        let mask = call("umask", [0o077])?;
        call("umask", [mask])?;
        Ok(mask)
    }
    is_of_the_process("the file mode mask", || call("umask", [umask()? ^ 0o010]), umask);
    assert!(!refused("umask", [0o077]));
}
