//! What the sampler promises, on workloads whose times are made up, so that
//! nothing here depends on how fast the machine is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use kumiki_sys::affinity;
use kumiki_sys::clock::Clock;
use proptest::prelude::*;

use super::*;
use crate::case::Workload;
use crate::error::Error;
use crate::meter::Sample;
use crate::schema::{CpuTime, Unit};

/// Says that an operation takes `ns` and the harness's share of it `overhead_ns`.
struct Made {
    ns: f64,
    overhead_ns: f64,
    max_batch: Option<u64>,
    /// The largest sample asked for.
    asked: Rc<Cell<u64>>,
}

impl Made {
    fn of(ns: f64) -> Self {
        Made { ns, overhead_ns: 0.0, max_batch: None, asked: Rc::default() }
    }
}

impl Workload for Made {
    fn sample(&mut self, iterations: u64, _: &Meter) -> Result<Sample> {
        self.asked.set(self.asked.get().max(iterations));
        let n = iterations as f64;
        let cpu = CpuTime { user_ns: n, system_ns: 2.0 * n, children_ns: 3.0 * n };
        Ok(Sample { wall_ns: self.ns * n, cpu, joules: 5e-9 * n, ..Sample::default() })
    }

    fn overhead(&mut self, iterations: u64, _: &Meter) -> Result<Sample> {
        Ok(Sample { wall_ns: self.overhead_ns * iterations as f64, ..Sample::default() })
    }

    fn max_batch(&self) -> Option<u64> {
        self.max_batch
    }
}

/// A case that always takes as long.
fn constant(name: &'static str) -> Case {
    Case::new(name, "made up", |_| Ok(Made::of(10.0)))
}

/// Keeps what it is told.
#[derive(Default)]
struct Log {
    visits: Vec<(&'static str, usize, Visit)>,
    cpus: Vec<Vec<usize>>,
    skips: Vec<(&'static str, String)>,
    announced: Vec<String>,
    /// Number of visits after which the log is full.
    room: Option<usize>,
}

impl Observer for Log {
    fn visited(&mut self, case: &Case, pass: usize, cpus: &[usize], visit: &Visit) -> Result<()> {
        self.visits.push((case.name, pass, visit.clone()));
        self.cpus.push(cpus.to_vec());
        match self.room {
            Some(room) if self.visits.len() >= room => Err(Error::Observer("full".into())),
            _ => Ok(()),
        }
    }

    fn skipped(&mut self, case: &Case, reason: &str) -> Result<()> {
        self.skips.push((case.name, reason.to_owned()));
        Ok(())
    }

    fn progress(&mut self, progress: Progress<'_>) {
        self.announced.push(progress.next.to_owned());
    }
}

impl Log {
    /// The names of one pass, in the order of their visits.
    fn pass(&self, pass: usize) -> Vec<&'static str> {
        self.visits.iter().filter(|visit| visit.1 == pass).map(|visit| visit.0).collect()
    }

    fn times(&self, name: &str) -> usize {
        self.visits.iter().filter(|visit| visit.0 == name).count()
    }
}

/// An hour for four visits of each case: only what a test changes ends a run.
fn settings() -> Settings {
    Settings {
        budget: Duration::from_secs(3600),
        target: 0.0,
        passes_at_least: 4,
        passes_at_most: 4,
        visit: Duration::ZERO,
    }
}

fn place() -> Place {
    let cpu = affinity::current().unwrap().first().unwrap();
    Place { cpu, partner: None, scratch: std::env::temp_dir() }
}

fn run_at(
    place: &Place,
    cases: &[Case],
    settings: &Settings,
    stop: &AtomicBool,
    log: &mut Log,
) -> Result<Outcome> {
    let meter = Meter::new(Clock::monotonic_raw());
    let allowed = affinity::current().unwrap();
    let outcome = Sampler { place, settings, meter: &meter, stop, apart: None }.run(cases, log);
    assert_eq!(affinity::current().unwrap(), allowed, "the thread gets its cpus back");
    outcome
}

/// A run that nobody stops.
fn run(cases: &[Case], settings: &Settings) -> (Outcome, Log) {
    let mut log = Log::default();
    let outcome = run_at(&place(), cases, settings, &AtomicBool::new(false), &mut log);
    (outcome.unwrap(), log)
}

/// One visit to a made-up workload, changed as a test likes.
fn visit_of(change: impl Fn(Case) -> Case, made: impl Fn() -> Made + 'static) -> Visit {
    let case = change(Case::new("made", "made up", move |_| Ok(made())));
    let (_, mut log) = run(&[case], &Settings { passes_at_most: 1, ..settings() });
    assert_eq!((log.visits.len(), log.skips.len()), (1, 0), "{:?}", log.skips);
    log.visits.remove(0).2
}

fn short(visit: &Visit) -> bool {
    visit.disturbances.iter().any(|words| words.contains("short for the clock"))
}

#[test]
fn a_batch_grows_until_a_sample_is_long_enough() {
    let asked = Rc::new(Cell::new(0));
    let its = Rc::clone(&asked);
    let visit = visit_of(|case| case, move || Made { asked: Rc::clone(&its), ..Made::of(10.0) });
    assert!(visit.batch >= 2000, "{}", visit.batch);
    assert!(!short(&visit), "{:?}", visit.disturbances);
    assert_eq!(asked.get(), visit.batch, "and no further");
    // One operation is enough if it is long.
    assert_eq!(visit_of(|case| case, || Made::of(1e9)).batch, 1);
}

#[test]
fn a_sample_is_never_larger_than_a_workload_takes_and_says_if_that_is_short() {
    let asked = Rc::new(Cell::new(0));
    let its = Rc::clone(&asked);
    let visit = visit_of(
        |case| case,
        move || Made { max_batch: Some(7), asked: Rc::clone(&its), ..Made::of(0.001) },
    );
    assert_eq!((visit.batch, asked.get()), (7, 7));
    assert!(short(&visit), "{:?}", visit.disturbances);
}

#[test]
fn the_harness_takes_its_own_share_off() {
    let visit = visit_of(|case| case, || Made { overhead_ns: 3.0, ..Made::of(10.0) });
    assert!((visit.overhead_ns - 3.0).abs() < 1e-9);
    assert!(visit.samples.len() >= 3, "{:?}", visit.samples);
    assert!(visit.samples.iter().all(|ns| (ns - 7.0).abs() < 1e-9), "{:?}", visit.samples);
    // Nothing takes less than no time.
    let visit = visit_of(|case| case, || Made { overhead_ns: 30.0, ..Made::of(10.0) });
    assert!(visit.samples.iter().all(|&ns| ns == 0.0), "{:?}", visit.samples);
}

#[test]
fn bandwidth_is_bytes_by_the_time_of_an_operation() {
    let made = || Made { overhead_ns: 2.0, ..Made::of(10.0) };
    let visit = visit_of(|case| case.bandwidth(1000), made);
    // 1000 bytes in 8 ns.
    assert!(visit.samples.iter().all(|gb| (gb - 125.0).abs() < 1e-6), "{:?}", visit.samples);
    let free = || Made { overhead_ns: 10.0, ..Made::of(10.0) };
    let visit = visit_of(|case| case.bandwidth(1000), free);
    assert!(visit.samples.iter().all(|gb| gb.is_finite()), "{:?}", visit.samples);
}

#[test]
fn processor_time_is_that_of_one_operation() {
    let cpu = visit_of(|case| case, || Made::of(10.0)).cpu;
    for (part, ns) in [(cpu.user_ns, 1.0), (cpu.system_ns, 2.0), (cpu.children_ns, 3.0)] {
        assert!((part - ns).abs() < 1e-9, "{cpu:?}");
    }
}

#[test]
fn a_case_that_lasts_for_seconds_is_visited_once_by_one_sample() {
    let asked = Rc::new(Cell::new(0));
    let its = Rc::clone(&asked);
    let seconds = move |_: &Place| Ok(Made { asked: Rc::clone(&its), ..Made::of(10.0) });
    let long = Case::new("long", "made up", seconds).once();
    let other = Case::new("other", "made up", |_: &Place| Ok(Made::of(10.0)));
    let (outcome, log) = run(&[long, other], &settings());
    assert!(outcome.complete);
    assert_eq!((log.times("long"), log.times("other")), (1, 4));
    let (name, pass, visit) = &log.visits[0];
    assert_eq!((*name, *pass, visit.batch, visit.samples.len()), ("long", 0, 1, 1));
    // Neither for a warm-up nor for more samples.
    assert_eq!(asked.get(), 1);
}

#[test]
fn every_pass_visits_every_case_the_first_in_the_catalogues_order() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (outcome, log) = run(&names.map(constant), &settings());
    assert!(outcome.complete);
    assert_eq!(log.pass(0), names);
    for pass in 1..4 {
        let mut visited = log.pass(pass);
        assert_ne!(visited, log.pass(pass - 1), "pass {pass} repeats the order before");
        visited.sort_unstable();
        assert_eq!(visited, names);
    }
    let visited: Vec<_> = log.visits.iter().map(|visit| visit.0).collect();
    assert_eq!(log.announced, visited, "each visit is announced before it begins");
}

#[test]
fn a_case_is_left_alone_once_it_is_known_well_enough() {
    let visits = Cell::new(0);
    let noisy = Case::new("noisy", "made up", move |_| {
        visits.set(visits.get() + 1);
        Ok(Made::of(if visits.get() % 2 == 0 { 10.0 } else { 1000.0 }))
    });
    let (outcome, log) = run(
        &[constant("constant"), noisy],
        &Settings { target: 0.01, passes_at_least: 3, passes_at_most: 6, ..settings() },
    );
    assert!(outcome.complete);
    assert_eq!((log.times("constant"), log.times("noisy")), (3, 6));
}

/// One operation that takes a while, and counts.
struct Slow(Duration, Rc<Cell<u32>>);

impl Workload for Slow {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        self.1.set(self.1.get() + 1);
        std::thread::sleep(self.0);
        Made::of(1e9).sample(iterations, meter)
    }

    fn max_batch(&self) -> Option<u64> {
        Some(1)
    }
}

#[test]
fn a_visit_has_three_samples_unless_one_is_very_long() {
    for (milliseconds, samples) in [(1, 3), (100, 1)] {
        let calls = Rc::<Cell<u32>>::default();
        let its = Rc::clone(&calls);
        let slow = Case::new("slow", "made up", move |_| {
            Ok(Slow(Duration::from_millis(milliseconds), Rc::clone(&its)))
        });
        let (_, log) = run(&[slow], &Settings { passes_at_most: 1, ..settings() });
        assert_eq!(log.visits[0].2.samples.len(), samples);
        assert_eq!(calls.get() as usize, 1 + samples, "it warms up once");
    }
}

#[test]
fn without_time_every_case_is_still_visited_once() {
    let settings = Settings { budget: Duration::ZERO, ..settings() };
    let (outcome, log) = run(&["a", "b", "c"].map(constant), &settings);
    assert!(outcome.complete);
    assert_eq!((log.pass(0), log.visits.len()), (vec!["a", "b", "c"], 3));
}

#[test]
fn nothing_to_measure_is_a_complete_run() {
    let (outcome, log) = run(&[], &settings());
    assert!(outcome.complete && log.visits.is_empty());
}

/// Cases of which one sets `stop` when it is set up for the nth time.
fn stopping(stop: &Rc<AtomicBool>, nth: usize, then: fn() -> Result<Made>) -> Vec<Case> {
    let setups = Rc::new(Cell::new(0));
    let case = |name| {
        let (stop, setups) = (Rc::clone(stop), Rc::clone(&setups));
        Case::new(name, "made up", move |_| {
            setups.set(setups.get() + 1);
            if setups.get() == nth {
                stop.store(true, Ordering::Relaxed);
                return then();
            }
            Ok(Made::of(10.0))
        })
    };
    ["a", "b", "c"].map(case).into()
}

#[test]
fn a_stopped_run_ends_after_the_visit_in_progress() {
    for nth in [1, 2, 5] {
        let stop = Rc::default();
        let cases = stopping(&stop, nth, || Ok(Made::of(10.0)));
        let mut log = Log::default();
        let outcome = run_at(&place(), &cases, &settings(), &stop, &mut log).unwrap();
        assert!(!outcome.complete);
        assert_eq!((log.visits.len(), log.skips.len()), (nth, 0));
    }
}

#[test]
fn a_visit_that_the_stop_broke_is_not_the_cases_fault() {
    let stop = Rc::default();
    let cases = stopping(&stop, 5, || Err(Error::Invalid("interrupted".into())));
    let mut log = Log::default();
    let outcome = run_at(&place(), &cases, &settings(), &stop, &mut log).unwrap();
    assert!(!outcome.complete);
    assert_eq!((log.visits.len(), log.skips.len()), (4, 0));
}

/// Its samples fail from the nth on.
struct Failing(u64);

impl Workload for Failing {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| Error::Invalid("no more".into()))?;
        Made::of(1e9).sample(iterations, meter)
    }
}

#[test]
fn what_fails_is_skipped_once_and_the_rest_goes_on() {
    let lacking = |_: &Place| Err::<Made, _>(Error::unsupported("a wheel", "buy one"));
    let third_visit = Cell::new(0);
    let cases = [
        constant("first"),
        Case::new("set-up", "made up", lacking),
        Case::new("warm-up", "made up", |_| Ok(Failing(0))),
        Case::new("sample", "made up", |_| Ok(Failing(2))),
        Case::new("later", "made up", move |_| {
            third_visit.set(third_visit.get() + 1);
            Ok(Failing(if third_visit.get() == 3 { 0 } else { u64::MAX }))
        }),
        constant("last"),
    ];
    let (outcome, mut log) = run(&cases, &settings());
    assert!(outcome.complete);
    log.skips.sort_unstable();
    let skips: Vec<_> = log.skips.iter().map(|(name, why)| (*name, why.as_str())).collect();
    assert_eq!(
        skips,
        [
            ("later", "no more"),
            ("sample", "no more"),
            ("set-up", "a wheel is not available: buy one"),
            ("warm-up", "no more"),
        ]
    );
    let times = ["first", "set-up", "warm-up", "sample", "later", "last"].map(|n| log.times(n));
    assert_eq!(times, [4, 0, 0, 0, 2, 4]);
}

#[test]
fn who_cannot_keep_the_figures_ends_the_run() {
    let mut log = Log { room: Some(2), ..Log::default() };
    let cases = ["a", "b", "c"].map(constant);
    let outcome = run_at(&place(), &cases, &settings(), &AtomicBool::new(false), &mut log);
    assert!(matches!(outcome, Err(Error::Observer(_))), "{outcome:?}");
    assert_eq!(log.visits.len(), 2);
}

/// Notes when it is set up and when it is undone.
struct Noted(Rc<RefCell<Vec<&'static str>>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.borrow_mut().push("undone");
    }
}

impl Workload for Noted {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        Made::of(10.0).sample(iterations, meter)
    }
}

#[test]
fn each_visit_has_a_set_up_of_its_own() {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let case = |name| {
        let notes = Rc::clone(&notes);
        Case::new(name, "made up", move |_| {
            notes.borrow_mut().push("set up");
            Ok(Noted(Rc::clone(&notes)))
        })
    };
    run(&["a", "b"].map(case), &Settings { passes_at_most: 2, ..settings() });
    assert_eq!(*notes.borrow(), ["set up", "undone"].repeat(4));
}

#[test]
fn a_visit_tells_the_cpus_of_its_case() {
    let allowed = affinity::current().unwrap();
    let mut cpus = allowed.iter();
    let (Some(cpu), Some(partner)) = (cpus.next(), cpus.next()) else {
        return eprintln!("skipped: this machine lends one cpu only");
    };
    let place = Place { partner: Some(partner), ..place() };
    let on = |_: &Place| Ok(Made::of(10.0 + rustix::thread::sched_getcpu() as f64));
    let cases = [Case::new("one", "made up", on), Case::new("two", "made up", on).two_cpus()];
    let mut log = Log::default();
    let settings = Settings { passes_at_most: 1, ..settings() };
    run_at(&place, &cases, &settings, &AtomicBool::new(false), &mut log).unwrap();
    assert_eq!(log.cpus, [vec![cpu], vec![cpu, partner]]);
    for (name, _, visit) in &log.visits {
        assert_eq!(visit.samples[0].round(), 10.0 + cpu as f64, "{name} ran elsewhere");
    }
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error_before_anything_runs() {
    let place = Place { cpu: 100_000, ..place() };
    let mut log = Log::default();
    let cases = [constant("a")];
    let outcome = run_at(&place, &cases, &settings(), &AtomicBool::new(false), &mut log);
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("cpu 100000"), "{error}");
    assert!(log.announced.is_empty());
}

#[test]
fn cpus_that_moved_apart_or_together_disturb_a_visit() {
    let trips = |before, after| Visit {
        round_trip_before_ns: before,
        round_trip_after_ns: after,
        ..Visit::default()
    };
    assert!(moved(&trips(Some(100.0), Some(140.0))).is_none());
    assert!(moved(&trips(Some(100.0), Some(1000.0))).is_some());
    assert!(moved(&trips(Some(1000.0), Some(100.0))).is_some());
    assert!(moved(&trips(None, Some(100.0))).is_none());
    assert!(moved(&trips(Some(100.0), None)).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checks that, whatever an operation takes, its sample is long enough or as large as
    /// may be, and the figure is that of the operation.
    #[test]
    fn any_operation_gets_a_batch(magnitude in -2.0_f64..6.0, most in 1_u64..1_000_000) {
        let ns = 10_f64.powf(magnitude);
        let made = move || Made { max_batch: Some(most), ..Made::of(ns) };
        let visit = visit_of(|case| case, made);
        prop_assert!((1..=most).contains(&visit.batch));
        prop_assert!(visit.batch == most || visit.batch as f64 * ns >= 20_000.0);
        for sample in &visit.samples {
            prop_assert!((sample - ns).abs() <= 1e-9 * ns, "{} for {}", sample, ns);
        }
    }
}

#[test]
fn shares_of_time_need_no_subtraction() {
    let made = || Made { overhead_ns: 9.0, ..Made::of(10.0) };
    // 6 ns of processor time in 10 ns; 5 nJ in 10 ns.
    for (unit, expected) in [(Unit::Cpus, 0.6), (Unit::Watts, 0.5)] {
        let visit = visit_of(|case| case.unit(unit), made);
        assert!(visit.samples.iter().all(|v| (v - expected).abs() < 1e-9), "{:?}", visit.samples);
    }
}

#[test]
fn a_case_about_two_cpus_is_measured_there() {
    let allowed = affinity::current().unwrap();
    let mut cpus = allowed.iter();
    let (Some(a), Some(b)) = (cpus.next(), cpus.next()) else {
        return eprintln!("skipped: this machine lends one cpu only");
    };
    let on = |place: &Place| {
        assert_eq!(affinity::current().unwrap().to_string(), place.cpu.to_string());
        Ok(Made::of((place.cpu * 1000 + place.partner.unwrap()) as f64))
    };
    let cases = [[a, b], [b, a]].map(|[x, y]| Case::new("made", "made up", on).between(x, y));
    let (_, log) = run(&cases, &Settings { passes_at_most: 1, ..settings() });
    for ((cpus, (.., visit)), [x, y]) in log.cpus.iter().zip(&log.visits).zip([[a, b], [b, a]]) {
        assert_eq!(cpus, &[x, y]);
        let expected = (x * 1000 + y) as f64;
        assert!(visit.samples.iter().all(|ns| (ns - expected).abs() < 1e-6), "{:?}", visit.samples);
    }
    assert_eq!((log.visits.len(), log.skips.len()), (2, 0), "{:?}", log.skips);
}
