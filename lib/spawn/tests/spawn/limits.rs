//! What the machine refuses is an error with its number, and nothing is left of it.

use std::fs;
use std::io;

use kumiki_spawn::{Refusal, Stdio, start_server};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::faults::{children, servers};
use crate::filter::{REFUSE, filter};

use super::new;

/// Descriptors, mappings, children, of those zombies.
fn counts() -> [usize; 4] {
    let count = |what: &str| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    [count("fd"), count("map_files"), children("RSDtTZ").len(), children("Z").len()]
}

fn works() -> bool {
    new("true").stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn number(started: io::Result<kumiki_spawn::Child>) -> Option<i32> {
    Refusal::number(&started.unwrap_err())
}

/// `work` while a limit is lower.
fn limited<T>(resource: Resource, soft: u64, work: impl FnOnce() -> T) -> T {
    let former = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(soft), ..former }).unwrap();
    let result = work();
    setrlimit(resource, former).unwrap();
    result
}

/// The limit of descriptors at which so many more may be opened: numbers in use may be far
/// apart, as this program has them from who has started it.
fn room_for(more: usize) -> u64 {
    let is_free = |number: &u64| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_err();
    (0..).filter(is_free).nth(more).unwrap()
}

#[test]
fn no_descriptor() {
    alone!("no_descriptor", || {
        assert!(works());
        let before = counts();
        // Each of them lacks at another place.
        for more in 0..6 {
            let piped = || new("true").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            match limited(Resource::Nofile, room_for(more), piped) {
                Ok(mut child) => assert!(child.wait().unwrap().success()),
                Err(error) => assert_eq!(Refusal::number(&error), Some(libc::EMFILE), "{more}"),
            }
            assert_eq!(counts(), before, "{more}");
        }
        assert_eq!(servers().len(), usize::from(super::BY_SERVER));
        // The server is to be started then.
        for server in servers() {
            kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
        }
        // Without it it needs none.
        let made = limited(Resource::Nofile, room_for(1), || new("true").spawn());
        assert!(made.unwrap().wait().unwrap().success());
        assert!(works());
        assert_eq!(counts(), before);
    });
}

#[test]
fn no_process() {
    alone!("no_process", || {
        const NOBODY: libc::uid_t = 65_533;
        // SAFETY: changes this process, which is for this test alone.
        if unsafe { libc::setuid(NOBODY) } != 0 {
            return println!("skipped: only root becomes a user without processes");
        }
        std::env::set_current_dir("/").unwrap();
        start_server().unwrap();
        assert!(works());
        let before = counts();
        let none = limited(Resource::Nproc, 1, || new("true").spawn());
        assert_eq!(number(none), Some(libc::EAGAIN));
        assert_eq!(counts(), before);
        assert!(works());
    });
}

#[test]
fn no_memory() {
    alone!("no_memory", || {
        let before = counts();
        let none = limited(Resource::As, 1 << 20, || new("true").spawn());
        assert_eq!(number(none), Some(libc::ENOMEM));
        assert_eq!(counts(), before);
        assert!(works());
    });
}

#[test]
fn a_filter_that_does_not_know_clone3() {
    alone!("a_filter_that_does_not_know_clone3", || {
        filter(&[libc::SYS_clone3], libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
        assert!(works());
        let before = counts();
        // Which clone(2) cannot do.
        let cgroup = fs::File::open("/").unwrap();
        let none = new("true").cgroup(cgroup).spawn();
        assert_eq!(number(none), Some(libc::ENOSYS));
        assert!(works());
        assert_eq!(counts(), before);
    });
}

#[test]
fn a_filter_that_denies_processes() {
    alone!("a_filter_that_denies_processes", || {
        let before = counts();
        assert!(works());
        let with_server = counts();
        // Once there is a server only its own children are denied: by the new one, which has
        // the filter, and that cannot be started.
        filter(&[libc::SYS_clone3, libc::SYS_clone, libc::SYS_vfork], REFUSE);
        for _ in 0..3 {
            assert_eq!(number(new("true").spawn()), Some(libc::EPERM));
        }
        if super::BY_SERVER {
            assert_ne!(before, with_server);
            assert_eq!(counts(), before);
        } else {
            assert_eq!(counts(), with_server);
        }
    });
}

/// Its children are nobody's loss but its own.
#[test]
fn a_parent_that_is_killed() {
    alone!("a_parent_that_is_killed", || {
        // SAFETY: changes this process, which is for this test alone.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }, 0);
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        // SAFETY: the child does what a program may, as no other thread held a lock.
        let parent = unsafe { libc::fork() };
        if parent == 0 {
            drop(reader);
            loop {
                let child = new("cat").stdin(Stdio::piped()).spawn();
                std::mem::forget(child.unwrap());
                io::Write::write_all(&mut &writer, b".").unwrap();
            }
        }
        drop(writer);
        let mut some = [0; 20];
        io::Read::read_exact(&mut &reader, &mut some).unwrap();
        kill_process(Pid::from_raw(parent).unwrap(), Signal::KILL).unwrap();
        // They read their pipes' ends, which came with the parent's; the server its socket's.
        loop {
            let mut status = 0;
            // SAFETY: waits for a child; `status` is writable.
            match unsafe { libc::waitpid(-1, &mut status, 0) } {
                -1 => break,
                id if id == parent => assert_eq!(libc::WTERMSIG(status), libc::SIGKILL),
                _ => assert_eq!(status, 0),
            }
        }
        assert_eq!(children("RSDtTZ"), [] as [i32; 0]);
    });
}

/// A program that keeps all of its memory in place keeps no more for its children than they need.
#[test]
fn memory_for_requests_is_not_locked() {
    alone!("memory_for_requests_is_not_locked", || {
        // SAFETY: changes this process, which is for this test alone.
        if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
            println!("passed over: mlockall(2): {}", std::io::Error::last_os_error());
            return;
        }
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
            line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap()
        };
        let before = locked();
        for by_server in [false, true] {
            let status = new("true").by_server(by_server).status().unwrap();
            assert!(status.success());
        }
        let more = locked().saturating_sub(before);
        assert!(more < 4096, "{more} KiB more are locked");
    });
}
