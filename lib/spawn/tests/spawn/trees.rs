//! A child that is ended with all that comes of it; a program that is just being written.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use kumiki_spawn::{Refusal, Stdio};

use super::new;

/// The folders of cgroups that this process has made, wherever they are mounted.
fn cgroups() -> Vec<String> {
    let name = format!("kumiki-{}-", std::process::id());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
    let folders = at.filter_map(|line| line.split(' ').nth(4));
    let found = folders.flat_map(|at| {
        let all =
            std::process::Command::new("find").args([at, "-name", &format!("{name}*")]).output();
        String::from_utf8(all.unwrap().stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    found.collect()
}

#[test]
fn what_comes_of_a_child_ends_with_it() {
    for script in ["sleep 1000 & sleep 1000", "sleep 1000 & exit 0"] {
        let mut child = new("sh");
        child.args(["-c", script]).kill_tree(true).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut pipe = child.stdout.take().unwrap();
        // The child may have ended, but is not waited for.
        std::thread::sleep(Duration::from_millis(20));
        child.kill().unwrap();
        // The last that has the other end is gone.
        assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
        let status = child.wait().unwrap();
        assert!(
            matches!((status.signal(), status.code()), (Some(9), _) | (_, Some(0))),
            "{status}"
        );
    }
}

#[test]
fn a_session_of_its_own_leaves_no_cgroup() {
    let mut child = new("setsid").args(["sleep", "1000"]).kill_tree(true).spawn().unwrap();
    if cgroups().is_empty() {
        println!("skipped: no cgroup can be made here");
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    }
    assert_eq!(child.wait_timeout(Duration::from_millis(10)).unwrap(), None);
    child.kill().unwrap();
    assert_eq!(child.wait_timeout(Duration::from_secs(600)).unwrap().unwrap().signal(), Some(9));
}

#[test]
fn what_is_left_goes_on_where_its_tree_was_dropped() {
    let mut child = new("sh");
    child.args(["-c", "sleep 1000 & echo $!"]).kill_tree(true).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut said = String::new();
    let mut byte = [0];
    while child.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        said.push(byte[0].into());
    }
    child.wait().unwrap();
    drop(child);
    let pid = rustix::process::Pid::from_raw(said.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_group_of_others_is_not_ended() {
    let error = new("true").kill_tree(true).process_group(1).spawn().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(new("true").kill_tree(true).process_group(0).status().unwrap().success());
    assert!(new("true").kill_tree(true).setsid(true).status().unwrap().success());
}

#[test]
fn a_program_that_is_being_written_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    fs::copy("/bin/true", &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let writer = || OpenOptions::new().append(true).open(&path).unwrap();
    let mut program = new(&path);
    let busy = writer();
    let begun = Instant::now();
    assert_eq!(Refusal::number(&program.spawn().unwrap_err()), Some(libc::ETXTBSY));
    // All of its pauses, between eight tries.
    assert!(begun.elapsed() >= Duration::from_millis(127), "{:?}", begun.elapsed());
    drop(busy);
    // Where others have the cpus the writer may be late, but not always.
    let succeeds = || {
        let busy = writer();
        let done = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            drop(busy);
        });
        let ended = new(&path).status();
        done.join().unwrap();
        ended.is_ok_and(|status| status.success())
    };
    assert!((0..50).any(|_| succeeds()), "it is tried again, but never started");
}

#[test]
fn an_environment_is_handed_on_as_it_is() {
    let mut env = new("cat");
    env.arg("/proc/self/environ").env("C", "3").environment([c"A=1", c"nothing", c"A=2", c""]);
    assert_eq!(env.output().unwrap().stdout, b"A=1\0nothing\0A=2\0\0");
}

#[test]
fn scheduling_is_said() {
    let policy = |said: fn(&mut kumiki_spawn::Command)| {
        let mut cat = new("cat");
        said(cat.arg("/proc/self/stat"));
        let stat = String::from_utf8(cat.output().unwrap().stdout).unwrap();
        stat.split(' ').nth(40).unwrap().to_owned()
    };
    assert_eq!(policy(|_| ()), "0");
    assert_eq!(policy(|cat| _ = cat.scheduler(libc::SCHED_BATCH, 0)), "3");
    assert_eq!(policy(|cat| _ = cat.scheduling_priority(0)), "0");
    let mut wrong = new("true");
    wrong.scheduling_priority(5).spawn().unwrap_err();
    assert_eq!(wrong.refused_at(), Some("its scheduling policy priority 5"));
}

#[test]
fn signals_that_always_do_so_may_be_named() {
    assert!(new("true").signal_default([9, 19, 15]).status().unwrap().success());
    new("true").signal_ignore([9]).spawn().unwrap_err();
}

/// Also by a server, which the standard library starts with SIGPIPE at its default.
#[test]
fn sigpipe_is_ignored_where_the_caller_ignores_it() {
    alone!("sigpipe_is_ignored_where_the_caller_ignores_it", || {
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let mut grep = new("grep");
        let out =
            grep.args(["SigIgn", "/proc/self/status"]).sigpipe_default(false).output().unwrap();
        let set = String::from_utf8(out.stdout).unwrap();
        let set = u64::from_str_radix(set.split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_ne!(set & 1 << (libc::SIGPIPE - 1), 0, "{set:x}");
    });
}

/// Its end is the parent's, also where a server has to make it and the thread that has started the
/// shared one is gone.
#[test]
fn the_parent_s_end_is_that_of_the_thread_that_calls() {
    alone!("the_parent_s_end_is_that_of_the_thread_that_calls", || {
        std::thread::spawn(|| new("true").by_server(true).status().unwrap()).join().unwrap();
        let mut child =
            new("sleep").arg("1000").by_server(true).parent_death_signal(9).spawn().unwrap();
        for _ in 0..3 {
            std::thread::spawn(|| new("true").status().unwrap()).join().unwrap();
        }
        assert_eq!(child.wait_timeout(Duration::from_millis(50)).unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    });
}
