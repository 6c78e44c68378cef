//! Commands whose difference is known: what each measure and each count says of them.

mod action;
mod known;
mod program;
mod written;

use std::sync::atomic::AtomicBool;

use kumiki_ab::{Cause, Counted, Finding, Measure, Outcome, Plan, Side, Verdict, trial};

/// A shell's loop of so many turns.
fn turns(n: u32) -> String {
    format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done")
}

fn sh(line: impl Into<String>) -> Side {
    Side::new(["sh".to_owned(), "-c".to_owned(), line.into()])
}

/// All of so many pairs.
fn compared(a: Side, b: Side, pairs: usize, by: Option<Measure>) -> Outcome {
    let plan = Plan { pairs: Some(pairs), all: true, by, ..Plan::new(a, b) };
    trial::run(plan, &AtomicBool::new(false), |_| ()).unwrap()
}

fn finding(outcome: &Outcome, by: Measure) -> Finding {
    *outcome.finding(by).unwrap_or_else(|| panic!("no {by:?}: {:?}", outcome.findings))
}

fn moved(outcome: &Outcome, of: Counted) -> Option<&Cause> {
    outcome.causes.iter().find(|cause| cause.of == of && cause.moved())
}

#[test]
fn three_times_the_work_is_more_processor_time() {
    let outcome = compared(sh(turns(5_000)), sh(turns(15_000)), 20, None);
    let cpu = finding(&outcome, Measure::Cpu);
    assert_eq!(cpu.verdict, Verdict::Slower, "{cpu:?}");
    assert!((1.5..4.0).contains(&cpu.ratio), "{cpu:?}");
    assert_eq!(outcome.verdict, Verdict::Slower, "{:?}", outcome.findings);
    assert!(moved(&outcome, Counted::User).is_some_and(|c| c.more > 0.0), "{:?}", outcome.causes);
    // It has as little memory and as few faults.
    for still in [Counted::MajorFaults, Counted::BlocksRead, Counted::BlocksWritten] {
        assert_eq!(moved(&outcome, still), None, "{:?}", outcome.causes);
    }
}

#[test]
fn who_sleeps_longer_takes_longer_and_costs_no_more() {
    let outcome = compared(Side::new(["sleep", "0.02"]), Side::new(["sleep", "0.2"]), 24, None);
    assert_eq!((outcome.by, outcome.verdict), (Measure::Wall, Verdict::Slower));
    assert!(outcome.waits, "of what sleeps processor time says nothing");
    // Asked by processor time alone, ten times as long is no answer.
    let ratio = finding(&outcome, Measure::Cpu).ratio;
    assert!(ratio < 5.0, "{ratio}");
}

#[test]
fn work_on_two_cpus_is_counted_whole() {
    let one = turns(10_000);
    let both = format!("({one}) & ({one}) & wait");
    let outcome = compared(sh(format!("({one})")), sh(both), 16, Some(Measure::Cpu));
    let cpu = finding(&outcome, Measure::Cpu);
    assert_eq!(cpu.verdict, Verdict::Slower, "{cpu:?}");
    assert!((1.4..3.0).contains(&cpu.ratio), "{cpu:?}");
    assert_eq!(outcome.findings.len(), 1, "it was asked for, and has all that may miss");
}

#[test]
fn more_memory_is_told_by_its_faults_and_its_peak() {
    let tail = |mib: u32| sh(format!("head -c {mib}M /dev/zero | tail -c {mib}M | wc -c"));
    let outcome = compared(tail(32), tail(64), 28, None);
    // 32 MiB are some thousand pages.
    let faults = moved(&outcome, Counted::MinorFaults);
    let faults = faults.unwrap_or_else(|| panic!("{:?}", outcome.causes));
    assert!(faults.more > 1_000.0, "{faults:?}");
    let memory = moved(&outcome, Counted::Memory).expect("more than this test has");
    assert!((1e7..1e8).contains(&memory.more), "{memory:?}");
    assert!(moved(&outcome, Counted::Kernel).is_some(), "{:?}", outcome.causes);
}

#[test]
fn instructions_decide_or_it_is_said_that_nobody_counts_them() {
    let plan = Plan {
        pairs: Some(12),
        by: Some(Measure::Instructions),
        ..Plan::new(sh(turns(5_000)), sh(turns(15_000)))
    };
    match trial::run(plan, &AtomicBool::new(false), |_| ()) {
        Ok(outcome) => {
            let found = finding(&outcome, Measure::Instructions);
            assert!(found.verdict == Verdict::Slower && found.ratio > 1.5, "{found:?}");
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("perf_event_paranoid") && said.contains("--by cpu"), "{said}");
        }
    }
}

#[test]
fn against_a_kept_b_it_goes_on_until_that_is_decided() {
    let kept = |by: Measure, ratio: f64| {
        let finding = Finding {
            by,
            verdict: Verdict::Slower,
            ratio,
            interval: Some([ratio * 0.999, ratio * 1.001]),
            pairs: 100,
            stood_after: None,
            against: None,
        };
        let plan = Plan::new(sh(turns(5_000)), sh(turns(15_000)));
        let plan = Plan {
            pairs: Some(40),
            by: Some(Measure::Cpu),
            // Half as much may still be noise: only what is far beyond it is asked.
            detect: 0.5,
            against: Some(vec![finding]),
            ..plan
        };
        trial::run(plan, &AtomicBool::new(false), |_| ())
    };
    // B is slower than A beyond doubt, and a tenth of what it was.
    let outcome = kept(Measure::Cpu, 30.0).unwrap();
    assert_eq!(outcome.verdict, Verdict::Slower);
    assert_eq!(outcome.against.unwrap().verdict, Verdict::Faster, "{:?}", outcome.against);
    // Of what was kept by another measure nothing would ever be known: that is said at once.
    let error = kept(Measure::Wall, 30.0).unwrap_err().to_string();
    assert!(error.contains("kept by wall time") && error.contains("by processor time"), "{error}");
}
