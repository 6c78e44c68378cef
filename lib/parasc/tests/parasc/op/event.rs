use std::fs::{self, File};
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use kumiki_parasc::op::{
    CWD, ClockNanosleep, Errno, InotifyAddWatch, InotifyInit1, InotifyRmWatch, Nanosleep, Poll,
    Read,
};
use rustix::event::PollFlags;
use rustix::fs::inotify::{CreateFlags, WatchFlags};
use rustix::time::{ClockId, Timespec, clock_gettime};
use tempfile::TempDir;

use super::{execute, name};

#[test]
fn poll_tells_which_pipe_has_something() {
    let (quiet, _writer) = UnixStream::pair().unwrap();
    let (reader, mut writer) = UnixStream::pair().unwrap();
    let mut poll = Poll::new([(&quiet, PollFlags::IN), (&reader, PollFlags::IN)], 0);
    assert_eq!(execute(&mut poll), Ok(0));
    writer.write_all(b"x").unwrap();
    assert_eq!(execute(&mut poll), Ok(1));
    let events: Vec<PollFlags> = poll.events().map(|(_, events)| events).collect();
    assert_eq!(events, [PollFlags::empty(), PollFlags::IN]);
    // Also while a child of another test still has that end.
    writer.shutdown(Shutdown::Both).unwrap();
    assert_eq!(execute(&mut poll), Ok(1));
    let (_, events) = poll.events().last().unwrap();
    assert_eq!(events, PollFlags::IN | PollFlags::HUP);
}

#[test]
fn poll_of_too_many_files_is_refused() {
    let file = tempfile::tempfile().unwrap();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let Some(limit) = limit.filter(|limit| *limit < 1 << 22) else {
        return eprintln!("passed over: no limit of open files to go beyond");
    };
    let mut poll = Poll::new((0..=limit).map(|_| (&file, PollFlags::IN)), 0);
    assert_eq!(execute(&mut poll), Err(Errno::INVAL));
}

#[test]
fn inotify_tells_of_a_new_file() {
    let folder = TempDir::new().unwrap();
    let made = execute(&mut InotifyInit1::new(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC));
    let queue = match made {
        Err(Errno::MFILE) => {
            return eprintln!("passed over: no inotify instance left for this user");
        }
        queue => queue.unwrap(),
    };
    let bad = CreateFlags::from_bits_retain(1);
    assert_eq!(execute(&mut InotifyInit1::new(bad)).unwrap_err(), Errno::INVAL);

    let add = |path| execute(&mut InotifyAddWatch::new(&queue, path, WatchFlags::CREATE));
    let watch = add(name(&folder, "")).unwrap();
    assert_eq!(add(name(&folder, "no")), Err(Errno::NOENT));
    let mut read = Read::new(&queue, [0; 1024]);
    assert_eq!(execute(&mut read), Err(Errno::AGAIN));
    fs::write(folder.path().join("new"), "").unwrap();
    assert!(execute(&mut read).unwrap() > 0);
    assert!(read.filled().windows(4).any(|bytes| bytes == b"new\0"));

    assert_eq!(execute(&mut InotifyRmWatch::new(&queue, watch)), Ok(()));
    assert_eq!(execute(&mut InotifyRmWatch::new(&queue, watch)), Err(Errno::INVAL));
}

#[test]
fn sleeps_are_not_shorter_than_told() {
    let short = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    let bad = Timespec { tv_sec: 0, tv_nsec: -1 };
    let clock = ClockId::Monotonic;
    let start = Instant::now();
    assert_eq!(execute(&mut Nanosleep::new(short)), Ok(()));
    assert_eq!(execute(&mut ClockNanosleep::new(clock, 0, short)), Ok(()));
    assert!(start.elapsed() >= Duration::from_millis(4));

    let end = clock_gettime(clock).checked_add(short).unwrap();
    assert_eq!(execute(&mut ClockNanosleep::new(clock, libc::TIMER_ABSTIME, end)), Ok(()));
    assert!(clock_gettime(clock) >= end);

    assert_eq!(execute(&mut Nanosleep::new(bad)), Err(Errno::INVAL));
    assert_eq!(execute(&mut ClockNanosleep::new(clock, 0, bad)), Err(Errno::INVAL));
}

#[test]
fn poll_waits_no_longer_than_told() {
    let file = File::open("/dev/zero").unwrap();
    let mut none = Poll::new([(&file, PollFlags::empty())], 1);
    assert_eq!(execute(&mut none), Ok(0));
    let mut nothing = Poll::<std::os::fd::BorrowedFd>::new([(CWD, PollFlags::IN)], 0);
    // A descriptor below zero is passed over.
    assert_eq!(execute(&mut nothing), Ok(0));
}
