//! What a caller keeps while its children are made, and what they have from it however late it
//! was set.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command as Std;
use std::thread;

use kumiki_spawn::{Action, Command, SpawnServer, start_server};
use rustix::process::{Pid, Signal, kill_process};

use crate::child::in_a_child;
use crate::faults::servers;

/// With a step on that descriptor.
fn with(by_server: bool, action: Action) -> Command {
    let mut command = Command::new("true");
    command.by_server(by_server).close_others(false);
    // SAFETY: what it names is this test's.
    unsafe { command.action(action) };
    command
}

/// Whether another process finds a file locked.
fn is_locked(file: &File) -> bool {
    // SAFETY: the child does what a program may, as no other thread held a lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: zeros are a lock from the beginning to the end.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        // SAFETY: asks, and writes to `lock`.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(lock.l_type != libc::F_UNLCK as libc::c_short)) };
    }
    let mut status = -1;
    // SAFETY: waits for that child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status != 0
}

/// Closing any descriptor of a file in its process would give them up.
#[test]
fn record_locks() {
    in_a_child("kept::record_locks", || {
        let file = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert!(is_locked(&file));
        for by_server in [false, true] {
            let from = file.as_raw_fd();
            let actions = [
                Action::Dup2 { from, to: 1 },
                Action::Dup2 { from, to: from },
                Action::Close(from),
                Action::CloseFrom(3),
            ];
            for action in actions {
                assert!(with(by_server, action).status().unwrap().success());
                assert!(is_locked(&file), "{by_server}");
            }
        }
    });
}

/// A cancellation that has come already, and would end the thread in what is half done.
#[test]
fn its_threads() {
    in_a_child("kept::its_threads", || {
        for by_server in [false, true] {
            let there = thread::spawn(move || {
                // SAFETY: tells of this thread.
                let own = unsafe { libc::pthread_self() };
                // SAFETY: it is cancelled where it says so only.
                assert_eq!(unsafe { libc::pthread_cancel(own) }, 0);
                let mut command = Command::new("true");
                let child = command.by_server(by_server).spawn();
                let ended = child.and_then(|mut child| child.wait());
                ended.is_ok_and(|status| status.success())
            });
            assert!(there.join().unwrap(), "{by_server}");
        }
    });
}

#[test]
fn a_table_without_room() {
    in_a_child("kept::a_table_without_room", || {
        start_server().unwrap();
        let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut full = Vec::new();
        while let Ok(another) = file.try_clone() {
            full.push(another);
        }
        for by_server in [false, true] {
            for to in [1, 5, 63] {
                let from = file.as_raw_fd();
                let status = with(by_server, Action::Dup2 { from, to }).status().unwrap();
                assert!(status.success(), "{by_server} {to}");
            }
        }
    });
}

/// One that its child opens is its child's.
#[test]
fn its_terminal() {
    in_a_child("kept::its_terminal", || {
        let tty = || {
            let stat = fs::read_to_string("/proc/self/stat").unwrap();
            stat.rsplit_once(") ").unwrap().1.split(' ').nth(4).unwrap().to_owned()
        };
        // SAFETY: changes this process, which is for this test alone.
        assert!(unsafe { libc::setsid() } >= 0);
        assert_eq!(tty(), "0");
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let Ok(master) = rustix::pty::openpt(flags) else {
            return println!("skipped: no pseudo-terminals here");
        };
        rustix::pty::unlockpt(&master).unwrap();
        let path: CString = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        for by_server in [false, true] {
            let mut command = Command::new("sh");
            command.args(["-c", "read all </proc/self/stat; set -- $all; test $7 != 0"]);
            let open = Action::Open { fd: 0, path: path.clone(), flags: libc::O_RDWR, mode: 0 };
            // SAFETY: what it names is the child's.
            unsafe { command.setsid(true).by_server(by_server).action(open) };
            assert!(command.status().unwrap().success(), "the child has it");
            assert_eq!(tty(), "0", "{by_server}");
        }
    });
}

/// Not a test by itself: what a child of the test below says.
#[test]
fn says_its_policies() {
    if std::env::var_os(SAYS).is_none() {
        return;
    }
    const GET_MDWE: i32 = 66;
    const GET_MEMORY_MERGE: i32 = 68;
    // SAFETY: these only tell, by their result.
    let get = |option: i32| unsafe { libc::prctl(option, 0, 0, 0, 0) };
    let all = [GET_MDWE, libc::PR_GET_THP_DISABLE, libc::PR_GET_TIMERSLACK, GET_MEMORY_MERGE];
    // SAFETY: asks only.
    let personality = unsafe { libc::personality(0xffff_ffff) };
    // SAFETY: takes numbers.
    let keyring = unsafe { libc::syscall(libc::SYS_keyctl, 0, -3, 0) };
    let mut mode = -1i32;
    // SAFETY: writes a number.
    unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, 0usize, 0usize, 0usize, 0usize)
    };
    println!("policies {:?} {personality:x} {keyring} {mode}", all.map(get));
}

const SAYS: &str = "KUMIKI_TEST_SAYS";

#[test]
fn policies_that_are_set_after_the_server_s_start() {
    in_a_child("kept::policies_that_are_set_after_the_server_s_start", || {
        let args = ["--exact", "kept::says_its_policies", "--nocapture", "--test-threads=1"];
        let line = |output: Vec<u8>| {
            let text = String::from_utf8(output).unwrap();
            text.lines().find_map(|line| Some(line.split_once("policies ")?.1.to_owned())).unwrap()
        };
        let program = std::env::current_exe().unwrap();
        let ours = || {
            let mut command = Command::new(&program);
            line(command.args(args).env(SAYS, "1").by_server(true).output().unwrap().stdout)
        };
        let theirs = || line(Std::new(&program).args(args).env(SAYS, "1").output().unwrap().stdout);
        assert_eq!(ours(), theirs());
        const SET_MDWE: i32 = 65;
        const SET_MEMORY_MERGE: i32 = 67;
        const INTERLEAVE: i32 = 3;
        const JOIN_SESSION_KEYRING: i32 = 1;
        const NO_RANDOM_ADDRESSES: libc::c_ulong = 0x4_0000;
        let changes: [(&str, &dyn Fn() -> bool); 7] = [
            // SAFETY: each changes this process only, which is for this test alone.
            ("timer slack", &|| unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 77_777) } == 0),
            // SAFETY: as above.
            ("huge pages", &|| unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } == 0),
            // SAFETY: as above.
            ("same pages", &|| unsafe { libc::prctl(SET_MEMORY_MERGE, 1, 0, 0, 0) } == 0),
            // SAFETY: as above.
            ("personality", &|| unsafe { libc::personality(NO_RANDOM_ADDRESSES) } >= 0),
            ("keyring", &|| {
                // SAFETY: as above; without a name it is a new one.
                let id = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, 0usize) };
                id > 0
            }),
            ("memory policy", &|| {
                let nodes = 1u64;
                // SAFETY: as above; the kernel reads one word.
                let set = unsafe {
                    libc::syscall(libc::SYS_set_mempolicy, INTERLEAVE, &raw const nodes, 64usize)
                };
                set == 0
            }),
            // SAFETY: as above.
            ("executable memory", &|| unsafe { libc::prctl(SET_MDWE, 1, 0, 0, 0) } == 0),
        ];
        for (name, change) in changes {
            let before = theirs();
            if !change() {
                println!("skipped in part: no {name}: {}", io::Error::last_os_error());
                continue;
            }
            assert_eq!(ours(), theirs(), "{name}");
            assert_ne!(theirs(), before, "{name}");
        }
    });
}

/// A number that another process has by now, as the program has waited for any child.
#[test]
fn who_has_the_server_s_number_by_now() {
    in_a_child("kept::who_has_the_server_s_number_by_now", || {
        const TURNS: usize = 30;
        for _ in 0..TURNS {
            let mut server = SpawnServer::new();
            server.start().unwrap();
            let number = servers()[0];
            let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap();
            assert_eq!(name, "kumiki-spawn\n");
            kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
            let mut status = 0;
            // SAFETY: waits for a child; `status` is writable.
            assert_eq!(unsafe { libc::waitpid(number, &mut status, 0) }, number);
            let before = (number - 1).to_string();
            if fs::write("/proc/sys/kernel/ns_last_pid", before).is_err() {
                return println!("skipped: only root says which number is next");
            }
            let mut innocent = Std::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
            let took_it = innocent.id() == number as u32;
            assert!(Command::new("true").spawn_by(&mut server).unwrap().wait().unwrap().success());
            drop(server);
            assert_eq!(innocent.try_wait().unwrap(), None, "it goes on");
            drop(innocent.stdin.take());
            assert!(innocent.wait().unwrap().success());
            if took_it {
                return;
            }
        }
        println!("skipped: other programs take the numbers");
    });
}

/// The writing end of a pipe that was open when the server began is not kept open by it.
#[test]
fn the_ends_of_its_pipes() {
    in_a_child("kept::the_ends_of_its_pipes", || {
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
        start_server().unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(reader).unwrap(), "");
        assert_eq!(servers().len(), 1);
    });
}
