//! Cases of the catalogue that cannot run somewhere are skipped, and the others run.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use kumiki_cases::catalogue;
use kumiki_measure::Result;
use kumiki_measure::case::{Case, Choice, Level, Place};
use kumiki_measure::meter::Meter;
use kumiki_measure::sampler::{Observer, Outcome, Sampler, Settings};
use kumiki_measure::schema::Visit;
use kumiki_sys::affinity;
use kumiki_sys::clock::Clock;

use crate::filter::{REFUSE, filter};

#[derive(Default)]
struct Log {
    visited: Vec<&'static str>,
    skipped: Vec<(&'static str, String)>,
}

impl Observer for Log {
    fn visited(&mut self, case: &Case, _: usize, _: &[usize], _: &Visit) -> Result<()> {
        self.visited.push(case.name);
        Ok(())
    }

    fn skipped(&mut self, case: &Case, reason: &str) -> Result<()> {
        self.skipped.push((case.name, reason.to_owned()));
        Ok(())
    }
}

fn quick(wanted: impl Fn(&Case) -> bool) -> Vec<Case> {
    let mut cases = catalogue(&Choice { level: Some(Level::Quick), ..Choice::default() });
    cases.retain(wanted);
    assert!(!cases.is_empty());
    cases
}

/// One visit of each, on one cpu.
fn run(cases: &[Case]) -> (Outcome, Log) {
    let folder = tempfile::tempdir().unwrap();
    let cpu = affinity::current().unwrap().first().unwrap();
    let place = Place { cpu, partner: None, scratch: folder.path().to_owned() };
    let settings = Settings { passes_at_most: 1, ..Settings::of(Level::Quick) };
    let settings = Settings { visit: Duration::ZERO, ..settings };
    let (meter, stop) = (Meter::new(Clock::monotonic_raw()), AtomicBool::new(false));
    let sampler =
        Sampler { place: &place, settings: &settings, meter: &meter, stop: &stop, apart: None };
    let mut log = Log::default();
    let outcome = sampler.run(cases, &mut log).unwrap();
    (outcome, log)
}

#[test]
fn where_sleeping_by_the_clock_is_forbidden_only_what_measures_it_is_skipped() {
    // The filter is this thread's alone.
    let filtered = thread::spawn(|| {
        filter(&[libc::SYS_clock_nanosleep, libc::SYS_nanosleep], REFUSE);
        let names = ["thread.nanosleep", "process.fork", "thread.yield"];
        let cases = quick(|case| names.contains(&case.name));
        Clock::calibrate(Duration::from_millis(1));
        let (outcome, log) = run(&cases);
        assert!(outcome.complete);
        assert!(log.visited.contains(&"process.fork"), "{:?}", log.skipped);
        let forbidden = ("thread.nanosleep", "sleep 100000 ns: Operation not permitted");
        let skips = |skip: &(&str, String)| skip.0 == forbidden.0 && skip.1.contains(forbidden.1);
        assert!(log.skipped.iter().any(skips), "{:?}", log.skipped);
    });
    filtered.join().unwrap();
}

#[test]
fn without_a_second_cpu_what_needs_one_says_so() {
    let cases = quick(|case| case.two_cpus);
    let (outcome, log) = run(&cases);
    assert!(outcome.complete && log.visited.is_empty());
    let (skipped, reasons): (Vec<_>, Vec<_>) = log.skipped.into_iter().unzip();
    assert_eq!(skipped, cases.iter().map(|case| case.name).collect::<Vec<_>>());
    for why in reasons {
        assert!(why.contains("a second cpu is not available: allow at least two cpus"), "{why}");
    }
}
