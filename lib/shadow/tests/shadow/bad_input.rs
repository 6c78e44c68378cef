//! What a program can ask for that cannot be had: each is an error that names
//! the thing, and changes nothing. What the types of Rust refuse is in the
//! documentation of `Shadow`; for C all of it is in `tests/capi/shadow.c`.

use std::fs;
use std::process::Command;
use std::thread;

use kumiki_shadow::{Builder, Error, Shadow, Team};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

/// Asks for `cpu` on either side; both errors, after which this thread has the
/// cpus that it had.
fn refused(cpu: usize) -> [Error; 2] {
    let before = affinity::current().unwrap();
    let asked = [Builder::new().main_cpu(cpu), Builder::new().helper_cpu(cpu)];
    let errors = asked.map(|builder| builder.share().create().expect_err("such a cpu"));
    assert_eq!(affinity::current().unwrap(), before);
    errors
}

#[test]
fn a_cpu_that_is_not_allowed() {
    // Limits of a thread are its own.
    let limited = thread::spawn(|| {
        let before = affinity::current().unwrap();
        let mut cpus = before.iter();
        let (Some(kept), Some(other)) = (cpus.next(), cpus.next()) else {
            println!("skipped: needs a second cpu");
            return;
        };
        affinity::set(&CpuSet::from_iter([kept])).unwrap();
        for error in refused(other) {
            let text = error.to_string();
            let Error::Sys(kumiki_sys::Error::CpuNotAllowed { cpu, .. }) = error else {
                panic!("{text}")
            };
            assert_eq!(cpu, other);
            assert!(text.contains(&format!("cpu {other} ")) && text.contains("allowed"), "{text}");
        }
        let error = Team::create(2).expect_err("one cpu is allowed");
        assert!(matches!(error, Error::NoFreeCpu { .. }), "{error}");
    });
    limited.join().unwrap();
}

#[test]
fn a_cpu_that_is_offline_or_does_not_exist() {
    let offline = fs::read_to_string("/sys/devices/system/cpu/offline").unwrap_or_default();
    let offline = offline.trim().parse::<CpuSet>().ok().and_then(|set| set.first());
    match offline {
        Some(cpu) => println!("cpu {cpu} is offline"),
        None => println!("skipped: no cpu is offline here"),
    }
    // Beyond what any kernel is built for, and beyond what fits its masks.
    for asked in offline.into_iter().chain([99_999, usize::MAX]) {
        for error in refused(asked) {
            let text = error.to_string();
            let Error::Sys(kumiki_sys::Error::CpuOffline { cpu, .. }) = error else {
                panic!("{text}")
            };
            assert!(cpu == asked && text.contains(&format!("cpu {asked} ")), "{text}");
        }
    }
}

#[test]
fn one_cpu_for_both_sides() {
    let here = affinity::current().unwrap().first().unwrap();
    let error = Builder::new().main_cpu(here).helper_cpu(here).create().expect_err("one cpu");
    assert!(matches!(error, Error::SameCpu { cpu } if cpu == here), "{error}");
    assert!(error.to_string().contains("share"), "{error}");
}

/// In a child of its own: a limit is for all threads of a process.
#[test]
fn no_thread_is_to_be_had() {
    const LIMIT: &str = "KUMIKI_TEST_LIMIT";
    match std::env::var(LIMIT).as_deref() {
        Ok("processes") => return processes_are_used_up(),
        Ok("memory") => return memory_for_stacks_is_used_up(),
        Ok("one stack") => return memory_for_one_stack_is_enough(),
        _ => {}
    }
    for (limit, stack) in [("processes", STACK), ("memory", STACK), ("one stack", SMALL)] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "bad_input::no_thread_is_to_be_had",
            "--nocapture",
            "--test-threads=1",
        ]);
        child.env(LIMIT, limit).env("RUST_MIN_STACK", stack.to_string());
        let output = child.output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        print!("{text}");
        let ran = output.status.success() && text.contains("1 passed");
        assert!(ran, "{limit}: {}", output.status);
    }
}

/// Bytes of a thread's stack in the child: more than it may have.
const STACK: u64 = 64 << 30;
/// More than the C library keeps of threads that have ended.
const SMALL: u64 = 256 << 20;

fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `limit` is readable and of the right type.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

fn processes_are_used_up() {
    const NOBODY: libc::uid_t = 65_534;
    // The limit does not hold for root.
    // SAFETY: changes this process, which is for this test alone.
    if unsafe { libc::geteuid() } == 0 && unsafe { libc::setuid(NOBODY) } != 0 {
        println!("skipped: root cannot become somebody else here");
        return;
    }
    limit(libc::RLIMIT_NPROC, 0);
    no_thread();
}

fn memory_for_stacks_is_used_up() {
    limit(libc::RLIMIT_AS, STACK);
    no_thread();
}

/// The thread that measures has ended before the helper starts.
fn memory_for_one_stack_is_enough() {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    limit(libc::RLIMIT_AS, pages * 4096 + SMALL * 3 / 2);
    drop(Builder::new().share().create().unwrap());
}

fn no_thread() {
    let before = affinity::current().unwrap();
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let threads_before = threads();
    let is_named = |error: Error| {
        assert!(matches!(error, Error::Thread { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("RLIMIT_NPROC") && text.contains("pids.max"), "{text}");
    };
    // Again and again: nothing of a refused one stays, no cpu stays taken.
    for _ in 0..50 {
        is_named(Builder::new().share().create().expect_err("there is no thread"));
        match Team::create(2).expect_err("there is no thread") {
            Error::NoFreeCpu { .. } if before.len() == 1 => {}
            error => is_named(error),
        }
    }
    assert_eq!(affinity::current().unwrap(), before);
    assert_eq!(threads(), threads_before);
    // What needs no thread goes on.
    assert_eq!(Shadow::inline().both(|| 1, || 2), (1, 2));
}

#[test]
fn a_team_of_nobody() {
    let error = Team::create(0).expect_err("the caller is one");
    assert!(error.to_string().contains("team of 0"), "{error}");
}
