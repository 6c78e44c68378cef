//! What a child is to be, looked at in its /proc.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use kumiki_spawn::{Child, Command, Namespaces, Refusal, Resource, Signal, Stdio};
use kumiki_sys::affinity;

use super::new;

/// Runs `look` while the child waits for its input.
fn while_it_waits<T>(set: impl FnOnce(&mut Command), look: impl FnOnce(u32) -> T) -> T {
    let mut command = new("cat");
    set(command.stdin(Stdio::piped()).stdout(Stdio::null()));
    let mut child: Child = command.spawn().unwrap();
    // The kernel lets the caller go on before it has closed what it closes at exec.
    let sleeps = |id| fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") S ");
    while !sleeps(child.id())
        || fs::read(format!("/proc/{}/cmdline", child.id())).unwrap() != b"cat\0"
    {
        std::thread::yield_now();
    }
    let seen = look(child.id());
    assert!(child.wait().unwrap().success());
    seen
}

fn status(id: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Field `number` of /proc/PID/stat, as proc(5) counts them.
fn stat(id: u32, number: usize) -> i64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    rest.split_whitespace().nth(number - 3).unwrap().parse().unwrap()
}

fn refused(set: impl FnOnce(&mut Command)) -> (Option<i32>, Option<String>) {
    let mut command = new("true");
    set(&mut command);
    let error = command.spawn().unwrap_err();
    let step = command.refused_at().map(str::to_owned);
    assert_eq!(Refusal::of(&error).map(Refusal::step), step.as_deref());
    if let Some(refusal) = Refusal::of(&error) {
        assert_eq!(error.kind(), refusal.error().kind());
        assert_eq!(error.to_string(), format!("{}: {}", refusal.step(), refusal.error()));
        let is_program = refusal.step().starts_with("executing the program ");
        assert_eq!(refusal.is_program(), is_program);
    }
    (Refusal::number(&error), step)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn user_group_and_groups() {
    if !is_root() {
        return println!("skipped: only root becomes somebody else");
    }
    let set = |command: &mut Command| _ = command.uid(65_534).gid(1234).groups(&[7, 5, 9]);
    let seen = while_it_waits(set, |id| ["Uid", "Gid", "Groups"].map(|field| status(id, field)));
    assert_eq!(seen, ["65534 65534 65534 65534", "1234 1234 1234 1234", "5 7 9"]);
    let seen = while_it_waits(|command| _ = command.uid(65_534), |id| status(id, "Groups"));
    assert_eq!(seen, "");
    // Who has ceased to be root may not take it back.
    let set = |command: &mut Command| _ = command.uid(65_534).current_dir("/proc/1/fd");
    assert_eq!(
        refused(set),
        (Some(libc::EACCES), Some("its working folder /proc/1/fd".to_owned()))
    );
}

#[test]
fn umask_and_nice_value() {
    let before = stat(std::process::id(), 19);
    let nice = (before + 3).min(19);
    let set = |command: &mut Command| _ = command.umask(0o137).nice(nice as i32);
    let seen = while_it_waits(set, |id| (status(id, "Umask"), stat(id, 19)));
    assert_eq!(seen, ("0137".to_owned(), nice));
    assert_eq!(while_it_waits(|_| (), |id| stat(id, 19)), before);
    for nice in [-21, 20, 1000] {
        let error = new("true").nice(nice).spawn().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn a_working_folder_by_its_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let open = File::open(folder.path()).unwrap();
    // No path leads there any more.
    drop(folder);
    let set = |command: &mut Command| {
        _ = command.current_dir("/nonexistent").current_dir_fd(open.try_clone().unwrap());
    };
    let there = while_it_waits(set, |id| fs::metadata(format!("/proc/{id}/cwd")).unwrap());
    assert_eq!(there.ino(), open.metadata().unwrap().ino());
    let set = |command: &mut Command| _ = command.current_dir_fd(tempfile::tempfile().unwrap());
    assert_eq!(refused(set), (Some(libc::ENOTDIR), Some("its working folder".to_owned())));
}

#[test]
fn a_root_folder() {
    let folder = tempfile::tempdir().unwrap();
    let set = |command: &mut Command| _ = command.chroot(folder.path());
    if !is_root() {
        let text = format!("its root folder {}", folder.path().display());
        return assert_eq!(refused(set), (Some(libc::EPERM), Some(text)));
    }
    // Nothing is there that could be executed.
    let text = "executing the program true".to_owned();
    assert_eq!(refused(set), (Some(libc::ENOENT), Some(text)));
    let set = |command: &mut Command| _ = command.chroot("/").uid(65_534);
    assert_eq!(while_it_waits(set, |id| status(id, "Uid")), "65534 65534 65534 65534");
}

#[test]
fn session_and_group() {
    let seen =
        while_it_waits(|command| _ = command.setsid(true), |id| (id, stat(id, 5), stat(id, 6)));
    assert_eq!((seen.1, seen.2), (seen.0.into(), seen.0.into()));
    let seen = while_it_waits(|command| _ = command.process_group(0), |id| (id, stat(id, 5)));
    assert_eq!(seen.1, i64::from(seen.0));
}

#[test]
fn a_terminal_that_controls_it() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let Ok(master) = rustix::pty::openpt(flags) else {
        return println!("skipped: no pseudo-terminals here");
    };
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let device = rustix::fs::fstat(&terminal).unwrap().st_rdev;
    let set = |command: &mut Command| _ = command.controlling_terminal(terminal);
    let (id, session, its) = while_it_waits(set, |id| (id, stat(id, 6), stat(id, 7)));
    assert_eq!(session, i64::from(id));
    let number = i64::from(rustix::fs::major(device)) << 8 | i64::from(rustix::fs::minor(device));
    assert_eq!(its, number);
    let none = File::open("/dev/null").unwrap();
    let set = |command: &mut Command| _ = command.controlling_terminal(none);
    assert_eq!(refused(set), (Some(libc::ENOTTY), Some("its controlling terminal".to_owned())));
}

#[test]
fn limits() {
    let set = |command: &mut Command| {
        command.limit(Resource::Nofile, Some(77), Some(99)).limit(Resource::Core, Some(0), Some(0));
    };
    let limits =
        while_it_waits(set, |id| fs::read_to_string(format!("/proc/{id}/limits")).unwrap());
    let of = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((of("Max open files"), of("Max core file size")), ("77 99".into(), "0 0".into()));
    let set = |command: &mut Command| _ = command.limit(Resource::Nofile, Some(99), Some(77));
    assert_eq!(refused(set), (Some(libc::EINVAL), Some("its limits Nofile 99 77".to_owned())));
}

#[test]
fn cpus() {
    let one = affinity::current().unwrap().iter().take(1).collect();
    let set = |command: &mut Command| _ = command.affinity(&one);
    assert_eq!(while_it_waits(set, |id| status(id, "Cpus_allowed_list")), one.to_string());
    let none = [100_000].into_iter().collect();
    let set = |command: &mut Command| _ = command.affinity(&none);
    assert_eq!(refused(set), (Some(libc::EINVAL), Some("its cpus 100000".to_owned())));
}

#[test]
fn signals() {
    let set = |command: &mut Command| {
        command.signal_mask([libc::SIGUSR1, 40]).signal_ignore([Signal::HUP, Signal::PIPE]);
    };
    let seen = while_it_waits(set, |id| ["SigBlk", "SigIgn"].map(|field| status(id, field)));
    let own = u64::from_str_radix(&status(std::process::id(), "SigIgn"), 16).unwrap();
    assert_eq!(seen, ["0000008000000200".to_owned(), format!("{:016x}", own | 0x1001)]);
    let error = new("true").signal_mask([65]).spawn().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

/// What the program ignores its children ignore, also if it began after the server.
#[test]
fn what_is_ignored_now_is_ignored_by_children() {
    alone!("what_is_ignored_now_is_ignored_by_children", || {
        kumiki_spawn::start_server().unwrap();
        let ignored = |set: fn(&mut Command)| while_it_waits(set, |id| status(id, "SigIgn"));
        let before = ignored(|_| ());
        // SAFETY: changes this process, which is for this test alone.
        unsafe { libc::signal(libc::SIGURG, libc::SIG_IGN) };
        let bit = |text: &str| u64::from_str_radix(text, 16).unwrap() >> (libc::SIGURG - 1) & 1;
        assert_eq!((bit(&before), bit(&ignored(|_| ()))), (0, 1));
        assert_eq!(bit(&ignored(|command| _ = command.signal_default([libc::SIGURG]))), 0);
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGURG, libc::SIG_DFL) };
        assert_eq!(bit(&ignored(|_| ())), 0);
    });
}

#[test]
fn descriptors_under_their_numbers() {
    let files: Vec<_> = (0..40).map(|_| tempfile::tempfile().unwrap()).collect();
    let inode = |file: &File| rustix::fs::fstat(file).unwrap().st_ino;
    // Numbers that the server has in use, and one beyond what it has.
    let numbers = [3, 4, 5, 10, 11, 12, 200];
    let set = |command: &mut Command| {
        for (number, file) in numbers.iter().zip(&files) {
            command.fd(file.as_fd().try_clone_to_owned().unwrap(), *number);
        }
    };
    let open = |id: u32| {
        let all = fs::read_dir(format!("/proc/{id}/fd")).unwrap();
        let mut all: Vec<i32> = all
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        all.sort_unstable();
        let inodes: Vec<u64> = numbers
            .iter()
            .map(|number| rustix::fs::stat(format!("/proc/{id}/fd/{number}")).unwrap().st_ino)
            .collect();
        (all, inodes)
    };
    let (all, inodes) = while_it_waits(set, open);
    assert_eq!(all, [&[0, 1, 2], &numbers[..]].concat());
    assert_eq!(inodes, files.iter().take(numbers.len()).map(inode).collect::<Vec<_>>());
}

/// More than a message to a server takes, and each where another one was.
#[test]
fn a_thousand_descriptors() {
    alone!("a_thousand_descriptors", || {
        const MANY: i32 = 1000;
        let limit = rustix::process::Rlimit { current: Some(2500), maximum: Some(2500) };
        if rustix::process::setrlimit(Resource::Nofile, limit).is_err() {
            return println!("skipped: no so many descriptors here");
        }
        let file = tempfile::tempfile().unwrap();
        let set = |command: &mut Command| {
            for number in 3..3 + MANY {
                command.fd(file.try_clone().unwrap(), number);
            }
        };
        let open = |id: u32| fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
        assert_eq!(while_it_waits(set, open), 3 + MANY as usize);
        // Inherited ones.
        let all: Vec<_> = (0..MANY).map(|_| file.try_clone().unwrap()).collect();
        for file in &all {
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
        }
        let set = |command: &mut Command| _ = command.close_others(false);
        assert!(while_it_waits(set, open) >= 3 + MANY as usize);
    });
}

#[test]
fn the_server_keeps_none_of_them() {
    if !super::BY_SERVER {
        return;
    }
    alone!("the_server_keeps_none_of_them", || {
        let spawn = || {
            let mut command = new("true");
            for number in 3..9 {
                command.fd(File::open("/").unwrap(), number);
            }
            assert!(command.status().unwrap().success());
        };
        spawn();
        let server = crate::faults::servers()[0];
        let open = || fs::read_dir(format!("/proc/{server}/fd")).unwrap().count();
        // It closes them when the child is off, and the standard ones some time later.
        let least = |span: Duration| {
            let (start, mut least) = (Instant::now(), usize::MAX);
            while start.elapsed() < span {
                least = least.min(open());
                std::thread::sleep(Duration::from_millis(1));
            }
            least
        };
        let before = least(Duration::from_millis(100));
        (0..20).for_each(|_| spawn());
        let (start, most) = (Instant::now(), Duration::from_secs(20));
        while open() != before && start.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(open(), before);
        assert_eq!(crate::faults::servers(), [server]);
    });
}

#[test]
fn others_stay_open_if_that_is_asked_for() {
    let file = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let number = file.as_raw_fd();
    let has = |id: u32| fs::exists(format!("/proc/{id}/fd/{number}")).unwrap();
    assert!(while_it_waits(|command| _ = command.close_others(false), has));
    assert!(!while_it_waits(|_| (), has));
}

#[test]
fn namespaces() {
    let space = |id: u32, name: &str| fs::read_link(format!("/proc/{id}/ns/{name}")).unwrap();
    let set = |command: &mut Command| _ = command.namespaces(Namespaces::UTS | Namespaces::IPC);
    if !is_root() {
        assert_eq!(refused(set), (Some(libc::EPERM), Some("making the process".to_owned())));
        return;
    }
    let own = std::process::id();
    let others = while_it_waits(set, |id| {
        ["uts", "ipc", "net"].map(|name| space(id, name) != space(own, name))
    });
    assert_eq!(others, [true, true, false]);
    let set = |command: &mut Command| _ = command.namespaces(Namespaces::PID);
    assert!(while_it_waits(set, |id| status(id, "NSpid").ends_with(" 1")));
}

fn own_ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

#[test]
fn maps_of_a_user_namespace() {
    let (uid, gid) = own_ids();
    let set = |command: &mut Command| _ = command.uid_map(7, uid, 1).gid_map(9, gid, 1);
    let map = |id: u32, name: &str| {
        let text = fs::read_to_string(format!("/proc/{id}/{name}")).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut probe = new("true");
    set(&mut probe);
    if probe.spawn().is_err_and(|_| probe.refused_at() == Some("making the process")) {
        return println!("skipped: no new user namespaces here");
    }
    let its = while_it_waits(set, |id| ["uid_map", "gid_map"].map(|name| map(id, name)));
    assert_eq!(its, [format!("7 {uid} 1"), format!("9 {gid} 1")]);
    // Within it is who the map says.
    let ids = new("sh").args(["-c", "id -u; id -g"]).uid_map(7, uid, 1).gid_map(9, gid, 1).output();
    assert_eq!(ids.unwrap().stdout, b"7\n9\n");
    // In pid namespaces of their own, too, and with one of the two only.
    let set = |command: &mut Command| {
        _ = command.namespaces(Namespaces::PID | Namespaces::MOUNT).uid_map(0, uid, 1);
    };
    assert_eq!(while_it_waits(set, |id| map(id, "uid_map")), format!("0 {uid} 1"));
    for range in [(0, uid, 0), (u32::MAX, uid, 2)] {
        let set = |command: &mut Command| _ = command.uid_map(range.0, range.1, range.2);
        let text = format!("the maps of its user namespace: users [{range:?}], groups []");
        assert_eq!(refused(set), (Some(libc::EINVAL), Some(text)));
    }
    if is_root() {
        let set = |command: &mut Command| {
            _ = command
                .uid_map(0, 100_000, 5)
                .uid_map(5, 7, 1)
                .gid_map(0, 200_000, 9)
                .uid(5)
                .gid(3);
        };
        let its = while_it_waits(set, |id| {
            [status(id, "Uid"), status(id, "Gid"), map(id, "uid_map"), map(id, "setgroups")]
        });
        let four = |id: u32| [id; 4].map(|id| id.to_string()).join(" ");
        assert_eq!(its, [four(7), four(200_003), "0 100000 5 5 7 1".into(), "allow".into()]);
    }
}

/// They may never drop groups, as those may forbid something.
#[test]
fn who_has_no_rights_maps_itself() {
    alone!("who_has_no_rights_maps_itself", || {
        const NOBODY: u32 = 65_534;
        // SAFETY: changes this process, which is for this test alone.
        if unsafe { libc::setgroups(0, std::ptr::null()) } == 0 {
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setgid(NOBODY) }, 0);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setuid(NOBODY) }, 0);
        }
        let (uid, gid) = own_ids();
        let mut command = new("sh");
        command.args(["-c", "id -u; id -g; cat /proc/self/setgroups"]);
        let output = match command.uid_map(0, uid, 1).gid_map(0, gid, 1).output() {
            Err(_) if command.refused_at() == Some("making the process") => {
                return println!("skipped: no new user namespaces here");
            }
            output => output.unwrap(),
        };
        assert_eq!(output.stdout, b"0\n0\ndeny\n");
        let other = |command: &mut Command| _ = command.uid_map(0, uid + 1, 1);
        assert_eq!(refused(other).0, Some(libc::EPERM));
    });
}

#[test]
fn a_cgroup() {
    let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|folder| fs::exists(format!("{folder}/cgroup.controllers")).unwrap());
    let folder = root.map(|root| format!("{root}/kumiki-spawn-test-{}", std::process::id()));
    let Some(folder) = folder.filter(|folder| fs::create_dir(folder).is_ok()) else {
        return println!("skipped: no cgroup can be made here");
    };
    let open = || File::open(&folder).unwrap();
    let set = |command: &mut Command| _ = command.cgroup(open());
    let name = folder.rsplit_once('/').unwrap().1;
    let its = while_it_waits(set, |id| fs::read_to_string(format!("/proc/{id}/cgroup")).unwrap());
    assert!(its.contains(name), "{its}");
    fs::remove_dir(&folder).unwrap();
    let none = File::open("/").unwrap();
    let set = |command: &mut Command| _ = command.cgroup(none);
    assert_eq!(refused(set), (Some(libc::EBADF), Some("making the process".to_owned())));
}

#[test]
fn the_parent_s_death_ends_it() {
    alone!("the_parent_s_death_ends_it", || {
        // Who has lost its parent is this process's then.
        // SAFETY: changes this process, which is for this test alone.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }, 0);
        let (mut reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        // SAFETY: the child does what a program may, as no other thread held a lock.
        let parent = unsafe { libc::fork() };
        if parent == 0 {
            let mut command = new("sleep");
            let child = command.arg("1000").parent_death_signal(libc::SIGUSR1).spawn().unwrap();
            (&writer).write_all(&child.id().to_ne_bytes()).unwrap();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        let mut id = [0; 4];
        reader.read_exact(&mut id).unwrap();
        let mut status = 0;
        // SAFETY: waits for that child; `status` is writable.
        assert_eq!(unsafe { libc::waitpid(parent, &mut status, 0) }, parent);
        let id = i32::from_ne_bytes(id);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
        assert_eq!(libc::WTERMSIG(status), libc::SIGUSR1);
    });
    let error = new("true").parent_death_signal(99).spawn().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

/// There the child sees no number of its parent: of a namespace that is made with it, and of one that
/// its parent has gone to before.
#[test]
fn a_parent_death_signal_in_a_pid_namespace() {
    alone!("a_parent_death_signal_in_a_pid_namespace", || {
        let begin = || {
            let mut command = new("sh");
            command.args(["-c", "echo $$"]).parent_death_signal(Signal::KILL);
            command.stdout(Stdio::piped());
            command
        };
        let spaces = if is_root() { Namespaces::PID } else { Namespaces::PID | Namespaces::USER };
        for by_server in [false, true] {
            let output = begin().namespaces(spaces).by_server(by_server).output();
            match output {
                Ok(output) => assert_eq!(output.stdout, b"1\n"),
                // A container may make none at all.
                Err(error) => assert_eq!(Refusal::number(&error), Some(libc::EPERM), "{error}"),
            }
        }
        // SAFETY: changes where this process's children begin.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0 {
            assert_eq!(begin().output().unwrap().stdout, b"1\n");
        }
    });
}
