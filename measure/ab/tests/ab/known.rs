//! A table of commands of which it is known what B does more: by each measure that decides.
//!
//! | kind | B, beside A | by |
//! |---|---|---|
//! | one thread that computes | computes three times as long | processor time |
//! | many threads | two compute as long as the one of A | processor time doubles |
//! | sleeps | sleeps ten times as long | the clock; processor time says nothing |
//! | waits for a disk | writes 32 times as often to it | the clock, and blocks written |
//! | starts programs | starts ten times as many | processor time, and faults |
//! | outlives | leaves a process that computes on | processor time |
//! | outlives apart | the same in a session of its own, whose parent has ended | processor time |
//! | nobody waits for it | a child that computes, whose parent ignores its end | processor time |

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_ab::{Counted, Measure, Outcome, Side, Verdict};

use super::{compared, finding, moved, sh, turns};

/// Turns of a shell that are some 20 ms.
const TURNS: u32 = 8_000;
/// Variable with the number of threads of the command that this program is then.
const THREADS: &str = "KUMIKI_AB_TEST_THREADS";

fn by_cpu(a: Side, b: Side) -> Outcome {
    compared(a, b, 16, Some(Measure::Cpu))
}

/// B costs so many times as much processor time as A.
fn costs(outcome: &Outcome, times: std::ops::Range<f64>) {
    let cpu = finding(outcome, Measure::Cpu);
    assert_eq!(cpu.verdict, Verdict::Slower, "{cpu:?}");
    assert!(times.contains(&cpu.ratio), "{cpu:?}");
}

#[test]
fn who_computes_three_times_as_long_costs_as_much_more() {
    costs(&by_cpu(sh(turns(TURNS)), sh(turns(3 * TURNS))), 2.0..4.0);
}

/// This program as a command: threads that compute for 30 ms of their own time each.
#[test]
fn as_a_command_that_has_threads() {
    let Some(threads) = env::var(THREADS).ok().and_then(|text| text.parse().ok()) else { return };
    let own = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || while own() < 30_000_000 {});
        }
    });
}

#[test]
fn two_threads_cost_twice_what_one_costs() {
    let threads = |count: u32| {
        let me = env::current_exe().unwrap().display().to_string();
        let test = "known::as_a_command_that_has_threads".to_owned();
        let mut side = Side::new([me, test, "--exact".to_owned()]);
        side.env.push((THREADS.to_owned(), count.to_string()));
        side
    };
    costs(&by_cpu(threads(1), threads(2)), 1.5..2.3);
}

#[test]
fn who_sleeps_costs_nothing_more() {
    let outcome = compared(Side::new(["sleep", "0.01"]), Side::new(["sleep", "0.1"]), 16, None);
    assert_eq!((outcome.by, outcome.verdict), (Measure::Wall, Verdict::Slower));
    assert!(outcome.waits && finding(&outcome, Measure::Cpu).ratio < 3.0, "{:?}", outcome.findings);
}

#[test]
fn who_waits_for_a_disk_is_slower_by_the_clock_and_by_blocks() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("file").display().to_string();
    if is_in_memory(&file) {
        println!("passed over: {file} is on no disk");
        return;
    }
    let writes = |times: u32| {
        sh(format!("dd if=/dev/zero of={file} bs=4k count={times} oflag=dsync conv=notrunc 2>&1"))
    };
    let outcome = compared(writes(4), writes(128), 40, Some(Measure::Wall));
    assert_eq!(outcome.verdict, Verdict::Slower, "{:?}", outcome.findings);
    let written = moved(&outcome, Counted::BlocksWritten);
    let more = written.map_or(0.0, |cause| cause.more);
    assert!(more > 900.0, "{:?}", outcome.causes);
}

/// Whether a file's system has no disk that blocks are counted of (tmpfs, overlays of it).
fn is_in_memory(file: &str) -> bool {
    std::fs::write(file, [0; 4096]).unwrap();
    let written = || {
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse::<u64>().ok())
    };
    let before = written();
    std::fs::write(file, [1; 4096]).unwrap();
    std::fs::File::open(file).unwrap().sync_all().unwrap();
    before.is_none() || written() == before
}

#[test]
fn who_starts_more_programs_has_more_faults() {
    let starts = |n: u32| sh(format!("for i in $(seq {n}); do /bin/true; done"));
    let outcome = by_cpu(starts(3), starts(30));
    costs(&outcome, 3.0..10.0);
    assert!(moved(&outcome, Counted::MinorFaults).is_some_and(|c| c.more > 500.0), "{outcome:?}");
}

#[test]
fn work_of_who_outlives_the_command_is_the_command_s() {
    // The command goes on for as long as what it leaves behind: who ends within as long again is counted.
    let left = |start: &str| sh(format!("{start}{}", turns(3 * TURNS)));
    let work = turns(TURNS);
    costs(&by_cpu(left(""), left(&format!("({work}; {work}; {work}) & "))), 1.5..2.5);
    let apart = format!("setsid sh -c '({work}; {work}; {work}) &' & ");
    costs(&by_cpu(left(""), left(&apart)), 1.5..2.6);
}

/// The kernel adds the time of a child to its parent's when that waits for it, and whoever ignores the ends of children
/// does not.
#[test]
fn work_of_a_child_that_nobody_waits_for_is_counted() {
    let line = "import os, signal, time\n\
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
                begin = time.process_time()\n\
                if MORE and os.fork() == 0:\n    \
                    while time.process_time() < 0.1: pass\n    \
                    os._exit(0)\n\
                while time.process_time() - begin < 0.05: pass\n\
                time.sleep(0.25)\n";
    let python = |more: &str| Side::new(["python3", "-c", &line.replace("MORE", more)]);
    costs(&by_cpu(python("False"), python("True")), 1.5..4.0);
}

#[test]
fn the_commands_are_as_long_as_the_table_says() {
    let begin = Instant::now();
    assert!(
        std::process::Command::new("sh").args(["-c", &turns(TURNS)]).status().unwrap().success()
    );
    assert!(begin.elapsed() > Duration::from_millis(1));
}
