//! What a child has from its caller, and what from nobody.

use kumiki_spawn::Command;
use kumiki_sys::affinity;

use super::new;

fn says(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn status(field: &str) -> String {
    let name = format!("^{field}:");
    let line = says(new("grep").args([&name, "/proc/self/status"]));
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[test]
fn its_parent_is_the_caller_not_the_server() {
    assert_eq!(status("PPid"), std::process::id().to_string());
}

/// As by the standard library: the calling thread's, not the server's or none.
#[test]
fn signals_are_blocked_as_in_the_calling_thread() {
    let theirs = || {
        let mut grep = std::process::Command::new("grep");
        let output = grep.args(["^SigBlk:", "/proc/self/status"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(status("SigBlk"), theirs());
    std::thread::spawn(move || {
        let set = [1u64 << (libc::SIGUSR1 - 1) | 1 << (libc::SIGHUP - 1)];
        let how = libc::SIG_BLOCK;
        // SAFETY: changes this thread's mask, which is for this test alone.
        let failed =
            unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set.as_ptr(), 0usize, 8usize) };
        assert_eq!(failed, 0);
        assert_eq!(status("SigBlk"), "0000000000000201");
        assert_eq!(theirs(), "0000000000000201");
        assert_eq!(
            says(new("grep").args(["^SigBlk:", "/proc/self/status"]).signal_mask([0; 0]))
                .split_whitespace()
                .nth(1),
            Some("0000000000000000")
        );
    })
    .join()
    .unwrap();
}

#[test]
fn it_is_in_the_caller_s_group_or_in_one_of_its_own() {
    let groups = "cut -d' ' -f1,5 /proc/self/stat";
    let group = |command: &mut Command| {
        let text = says(command.args(["-c", &format!("exec {groups}")]));
        let (id, group) = text.split_once(' ').unwrap();
        (id.to_owned(), group.to_owned())
    };
    let own = {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        text.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(group(&mut new("sh")).1, own);
    let (id, its) = group(new("sh").process_group(0));
    assert_eq!(id, its);
}

#[test]
fn a_bound_caller_s_children_run_where_the_program_may() {
    let allowed = affinity::current().unwrap();
    let bound = affinity::bind(allowed.first().unwrap()).unwrap();
    assert_eq!(status("Cpus_allowed_list"), allowed.to_string());
    // A thread that a bound one starts is where that is, and has no binding of its own.
    let started = std::thread::spawn(|| status("Cpus_allowed_list"));
    assert_eq!(started.join().unwrap(), allowed.to_string());
    drop(bound);
    // What the program chose itself holds for its children.
    let chosen = allowed.iter().take(1).collect();
    let there = std::thread::spawn(move || {
        affinity::set(&chosen).unwrap();
        (status("Cpus_allowed_list"), chosen.to_string())
    });
    let (its, chosen) = there.join().unwrap();
    assert_eq!(its, chosen);
}

/// Of a server's child neither is the server's, which was started before.
#[test]
fn group_and_cpus_are_those_of_the_caller_at_the_call() {
    alone!("group_and_cpus_are_those_of_the_caller_at_the_call", || {
        let group = || says(new("sh").args(["-c", "exec cut -d' ' -f5 /proc/self/stat"]));
        // 0 of a group from outside of a pid namespace, where getpgrp(2) has no answer for rustix.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let own = stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().to_owned();
        assert_eq!(group(), own);
        rustix::process::setpgid(None, None).unwrap();
        assert_ne!(own, std::process::id().to_string());
        assert_eq!(group(), std::process::id().to_string());
        for cpu in affinity::current().unwrap().iter() {
            let one = [cpu].into_iter().collect();
            std::thread::scope(|threads| {
                let there = threads.spawn(|| {
                    affinity::set(&one).unwrap();
                    status("Cpus_allowed_list")
                });
                assert_eq!(there.join().unwrap(), one.to_string());
            });
        }
    });
}
