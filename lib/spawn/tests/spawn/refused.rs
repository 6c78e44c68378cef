//! Where something is refused, a child starts as `std::process::Command` starts it there, or the
//! error says at which step; and what was promised of it holds in any case.
//!
//! Each place is made in a process of its own: one system call less, a small limit, no /proc.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::ExitStatus;

use kumiki_spawn::{Command, Refusal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::child::{in_a_child, in_a_child_with};
use crate::filter::filter;

/// Which of the places it is.
const PLACE: &str = "KUMIKI_TEST_PLACE";

/// Every system call that caller, child and server make, as `strace -f` of these starts names them,
/// and those by which older kernels do the same. Without exit(2) the C library's own threads never
/// end, without recvfrom(2) std panics: these two are not there.
const CALLS: [(&str, libc::c_long); 72] = [
    ("access", libc::SYS_access),
    ("arch_prctl", libc::SYS_arch_prctl),
    ("chdir", libc::SYS_chdir),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("close", libc::SYS_close),
    ("close_range", libc::SYS_close_range),
    ("dup2", libc::SYS_dup2),
    ("execveat", libc::SYS_execveat),
    ("fchdir", libc::SYS_fchdir),
    ("fcntl", libc::SYS_fcntl),
    ("fork", libc::SYS_fork),
    ("ftruncate", libc::SYS_ftruncate),
    ("futex", libc::SYS_futex),
    ("get_mempolicy", libc::SYS_get_mempolicy),
    ("get_robust_list", libc::SYS_get_robust_list),
    ("getcpu", libc::SYS_getcpu),
    ("getdents64", libc::SYS_getdents64),
    ("getegid", libc::SYS_getegid),
    ("getpgid", libc::SYS_getpgid),
    ("getpid", libc::SYS_getpid),
    ("getppid", libc::SYS_getppid),
    ("getsid", libc::SYS_getsid),
    ("gettid", libc::SYS_gettid),
    ("getuid", libc::SYS_getuid),
    ("ioctl", libc::SYS_ioctl),
    ("kcmp", libc::SYS_kcmp),
    ("keyctl", libc::SYS_keyctl),
    ("kill", libc::SYS_kill),
    ("madvise", libc::SYS_madvise),
    ("memfd_create", libc::SYS_memfd_create),
    ("open", libc::SYS_open),
    ("personality", libc::SYS_personality),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pidfd_send_signal", libc::SYS_pidfd_send_signal),
    ("pipe2", libc::SYS_pipe2),
    ("poll", libc::SYS_poll),
    ("pread64", libc::SYS_pread64),
    ("prlimit64", libc::SYS_prlimit64),
    ("readlink", libc::SYS_readlink),
    ("readlinkat", libc::SYS_readlinkat),
    ("recvmsg", libc::SYS_recvmsg),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_getattr", libc::SYS_sched_getattr),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("sendmsg", libc::SYS_sendmsg),
    ("setgroups", libc::SYS_setgroups),
    ("setpgid", libc::SYS_setpgid),
    ("setresgid", libc::SYS_setresgid),
    ("setresuid", libc::SYS_setresuid),
    ("shutdown", libc::SYS_shutdown),
    ("socketpair", libc::SYS_socketpair),
    ("statx", libc::SYS_statx),
    ("vfork", libc::SYS_vfork),
    ("wait4", libc::SYS_wait4),
    ("waitid", libc::SYS_waitid),
    ("write", libc::SYS_write),
    ("prctl", libc::SYS_prctl),
    ("brk", libc::SYS_brk),
    ("execve", libc::SYS_execve),
    ("exit_group", libc::SYS_exit_group),
    ("getrandom", libc::SYS_getrandom),
    ("mmap", libc::SYS_mmap),
    ("mprotect", libc::SYS_mprotect),
    ("munmap", libc::SYS_munmap),
    ("newfstatat", libc::SYS_newfstatat),
    ("openat", libc::SYS_openat),
    ("read", libc::SYS_read),
    ("rseq", libc::SYS_rseq),
    ("set_robust_list", libc::SYS_set_robust_list),
];

/// Resources and values that are too small for something.
const LIMITS: [(Resource, u64); 9] = [
    (Resource::Fsize, 0),
    (Resource::Fsize, 1 << 20),
    (Resource::Nofile, 3),
    (Resource::Nofile, 7),
    (Resource::Nofile, 12),
    (Resource::Memlock, 0),
    (Resource::As, 1 << 28),
    (Resource::Data, 1 << 24),
    (Resource::Stack, 1 << 17),
];

/// What is started: an own program without a C library would be the least, but /bin/true needs
/// little more, as both ways execute the same.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Caller,
    Server,
    /// Another user; the group of nobody.
    Other,
}

fn ours(who: Who) -> (io::Result<ExitStatus>, Option<String>) {
    let mut command = Command::new("/bin/true");
    match who {
        Who::Caller => {}
        Who::Server => _ = command.by_server(true),
        Who::Other => _ = command.uid(65_534).gid(65_534),
    }
    let ended = command.spawn().and_then(|mut child| child.wait());
    (ended, command.refused_at().map(str::to_owned))
}

fn theirs(who: Who) -> io::Result<ExitStatus> {
    let mut command = std::process::Command::new("/bin/true");
    if who == Who::Other {
        command.uid(65_534).gid(65_534);
    }
    command.status()
}

/// Compares in a place that was made already. What std cannot start, or cannot wait for, need not
/// be started here; whatever is refused here has its step, or its sentence.
fn alike(place: &str) {
    let is_root = rustix::process::geteuid().is_root();
    for who in [Who::Caller, Who::Server, Who::Other] {
        // Std waits for ever for the end of a pipe that it cannot close.
        if who == Who::Other && (!is_root || place == "close") {
            continue;
        }
        let std = theirs(who);
        let (own, step) = ours(who);
        match (&std, &own) {
            (Ok(std), Ok(own)) => assert_eq!(own, std, "{place}, {who:?}"),
            (Err(_), _) => {}
            (Ok(_), Err(error)) => {
                let says = step.is_some() || Refusal::number(error).is_none();
                assert!(says, "{place}, {who:?}: {error} where std starts {std:?}");
                // Where writing is refused nobody hears of it.
                let _ = writeln!(io::stdout(), "{place}, {who:?}: {error}, {step:?}: not as std");
            }
        }
    }
}

/// In a child process each: `make` changes it for good.
fn each(name: &str, count: usize, work: fn()) {
    if std::env::var_os(PLACE).is_some() {
        return in_a_child(name, work);
    }
    // Several at once, as most wait for others.
    std::thread::scope(|threads| {
        for first in 0..2 {
            threads.spawn(move || {
                for place in (first..count).step_by(2) {
                    in_a_child_with([(PLACE, place.to_string())], name, work);
                }
            });
        }
    });
}

fn place() -> usize {
    std::env::var(PLACE).unwrap().parse().unwrap()
}

fn refuse(error: i32) {
    let (name, number) = CALLS[place()];
    // In a thread of its own, as the test's has to tell how it ended.
    let there = std::thread::spawn(move || {
        filter(&[number], libc::SECCOMP_RET_ERRNO | error as u32);
        alike(name);
    });
    assert!(there.join().is_ok(), "{name}");
}

#[test]
fn without_one_system_call_that_is_forbidden() {
    each("refused::without_one_system_call_that_is_forbidden", CALLS.len(), || {
        refuse(libc::EPERM);
    });
}

#[test]
fn without_one_system_call_that_the_kernel_does_not_have() {
    each("refused::without_one_system_call_that_the_kernel_does_not_have", CALLS.len(), || {
        refuse(libc::ENOSYS);
    });
}

#[test]
fn with_a_small_limit() {
    each("refused::with_a_small_limit", LIMITS.len(), || {
        let (resource, soft) = LIMITS[place()];
        let Rlimit { maximum, .. } = getrlimit(resource);
        setrlimit(resource, Rlimit { current: Some(soft), maximum }).unwrap();
        alike(&format!("{resource:?} {soft}"));
    });
}

/// Each is hidden in a mount namespace, where the caller and its children are.
#[test]
fn without_a_file_system() {
    const HIDDEN: [&std::ffi::CStr; 3] = [c"/proc", c"/dev", c"/sys"];
    each("refused::without_a_file_system", HIDDEN.len(), || {
        // SAFETY: changes this process, which is for this test alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return println!("skipped: only root hides a file system");
        }
        let (private, none) = (libc::MS_REC | libc::MS_PRIVATE, std::ptr::null());
        let root = c"/".as_ptr();
        // SAFETY: as above; strings that end with a zero, or null pointers where none is read.
        if unsafe { libc::mount(none, root, none, private, none.cast()) } != 0 {
            let error = io::Error::last_os_error();
            // mount(2): not a mount point, as in a folder that somebody has chrooted to.
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "making / private: {error}");
            return println!(
                "skipped: / is no mount point here, so nothing is hidden for one alone"
            );
        }
        let (folder, kind) = (HIDDEN[place()], c"tmpfs".as_ptr());
        // SAFETY: as above.
        assert_eq!(unsafe { libc::mount(kind, folder.as_ptr(), kind, 0, none.cast()) }, 0);
        alike(folder.to_str().unwrap());
    });
}

/// What a child of each kind has open, beside its standard descriptors.
fn leaks(file: &File, who: Who) -> bool {
    let script = format!("test -e /proc/self/fd/{}", file.as_raw_fd());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script]);
    match who {
        Who::Caller => {}
        Who::Server => _ = command.by_server(true),
        Who::Other => _ = command.uid(65_534).gid(65_534),
    }
    command.status().unwrap().success()
}

/// Nothing of the caller's is inherited, and a pipe ends, though close_range(2) is refused, with
/// and without a list of what is open; also the numbers that servers once wanted.
#[test]
fn nothing_leaks_where_close_range_is_refused() {
    const ERRORS: [i32; 2] = [libc::EPERM, libc::ENOSYS];
    each("refused::nothing_leaks_where_close_range_is_refused", 4, || {
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        let writer = File::from(std::os::fd::OwnedFd::from(writer));
        for number in [10, 11, 300] {
            // SAFETY: changes this process, which is for this test alone.
            assert_eq!(unsafe { libc::dup2(writer.as_raw_fd(), number) }, number);
        }
        let file = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let mut calls = vec![libc::SYS_close_range];
        if place() >= 2 {
            calls.push(libc::SYS_getdents64);
        }
        filter(&calls, libc::SECCOMP_RET_ERRNO | ERRORS[place() % 2] as u32);
        let is_root = rustix::process::geteuid().is_root();
        for who in [Who::Caller, Who::Server, Who::Other] {
            if who != Who::Other || is_root {
                assert!(!leaks(&file, who), "{who:?}");
            }
        }
        drop(writer);
        for number in [10, 11, 300] {
            // SAFETY: as above.
            assert_eq!(unsafe { libc::close(number) }, 0);
        }
        assert_eq!(io::read_to_string(reader).unwrap(), "");
        assert!(fs::exists("/proc/self").unwrap());
    });
}

/// In a pid namespace that forbids to execute memory (vm.memfd_noexec): 1 unless it is asked for, 2
/// in any case.
#[test]
fn where_memory_may_not_be_executed() {
    each("refused::where_memory_may_not_be_executed", 2, || {
        // SAFETY: changes this process, which is for this test alone.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            return println!("skipped: only root begins a pid namespace");
        }
        let made = || fs::write("/proc/sys/vm/memfd_noexec", (place() + 1).to_string());
        if !alike_in_a_fork("memfd_noexec", made) {
            println!("skipped: a kernel without vm.memfd_noexec");
        }
    });
}

/// Compares in a process of one thread, where `make` has made the place; `false` if it cannot.
fn alike_in_a_fork(place: &str, make: impl FnOnce() -> io::Result<()>) -> bool {
    // SAFETY: the child does what a program may, as no other thread held a lock.
    let first = unsafe { libc::fork() };
    if first == 0 {
        let code = match make() {
            Err(_) => 2,
            Ok(()) => i32::from(std::panic::catch_unwind(|| alike(place)).is_err()),
        };
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: waits for that child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(first, &mut status, 0) }, first);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 1, "{place}: {status:#x}");
    libc::WEXITSTATUS(status) == 0
}

/// In a user namespace in which no other one may be made, as a child with namespaces would.
#[test]
fn where_no_user_namespace_may_be_made() {
    in_a_child("refused::where_no_user_namespace_may_be_made", || {
        let none_more = || {
            // SAFETY: changes this process, which is for this test alone.
            if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
                return Err(io::Error::last_os_error());
            }
            for (file, text) in [("uid_map", "0 0 1"), ("setgroups", "deny"), ("gid_map", "0 0 1")]
            {
                fs::write(format!("/proc/self/{file}"), text)?;
            }
            fs::write("/proc/sys/user/max_user_namespaces", "0")
        };
        if !alike_in_a_fork("max_user_namespaces", none_more) {
            println!("skipped: a user namespace is refused already");
        }
    });
}

/// Set by who owns the machine: the lab (`cargo xtask test cpus`). Others share these switches.
const OWN_MACHINE: &str = "KUMIKI_OWN_MACHINE";

/// Switches of the whole machine that refuse what caller, child or server could ask for.
const SWITCHES: [(&str, &str); 4] = [
    ("kernel/yama/ptrace_scope", "2"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/io_uring_disabled", "2"),
    ("user/max_user_namespaces", "0"),
];

#[test]
fn where_a_switch_of_the_machine_refuses() {
    if std::env::var_os(OWN_MACHINE).is_none() {
        return println!("skipped: the machine is not this test's ({OWN_MACHINE})");
    }
    for (switch, value) in SWITCHES {
        let path = format!("/proc/sys/{switch}");
        let before = fs::read_to_string(&path).expect(switch);
        fs::write(&path, value).expect(switch);
        alike(switch);
        fs::write(&path, before).expect(switch);
    }
}
