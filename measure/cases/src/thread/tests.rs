//! What must hold for every case of this folder, and nothing that depends on
//! how fast the machine is.

use std::time::{Duration, Instant};

use kumiki_sys::affinity::{self, Bound};
use kumiki_sys::clock::Clock;

use super::*;
use kumiki_measure::case::{Level, Place, Workload};
use kumiki_measure::error::Error;
use kumiki_measure::meter::Meter;

/// Two cpus if there are, and this thread bound to the first.
fn place() -> (Place, Bound) {
    let allowed = affinity::current().unwrap();
    let mut cpus = allowed.iter();
    let cpu = cpus.next().unwrap();
    let place = Place { cpu, partner: cpus.next(), scratch: std::env::temp_dir() };
    (place, affinity::bind(cpu).unwrap())
}

#[test]
fn every_case_runs_and_returns_the_thread() {
    let (place, _bound) = place();
    let meter = Meter::new(Clock::calibrate(Duration::from_millis(5)));
    for case in cases(&Choice::default()) {
        let name = format!("{} {:?}", case.name, case.params);
        let mut workload = match (case.setup)(&place) {
            Err(Error::Unsupported { .. }) if place.partner.is_none() && case.two_cpus => continue,
            outcome => outcome.unwrap_or_else(|error| panic!("{name}: {error}")),
        };
        for iterations in [1, 3] {
            let sample = workload.sample(iterations, &meter).unwrap();
            assert!(sample.wall_ns > 0.0, "{name}: {sample:?}");
        }
        drop(workload);
        assert_eq!(rustix::thread::sched_getcpu(), place.cpu, "{name} left its cpu");
    }
}

#[test]
fn a_broken_ring_is_an_error() {
    let (place, _bound) = place();
    let meter = Meter::new(Clock::calibrate(Duration::from_millis(5)));
    // The member watched first, and one that is not.
    for victim in [0, 2] {
        let mut ring = context_switch::PipeRing::start(place.cpu, 4, 4096).unwrap();
        ring.sample(8, &meter).unwrap();
        ring.kill(victim);
        let start = Instant::now();
        let error = ring.sample(8, &meter).unwrap_err().to_string();
        assert!(error.contains("killed by signal 9"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(60), "{error}");
    }
}

#[test]
fn a_sleep_is_no_shorter_than_asked() {
    let (place, _bound) = place();
    let meter = Meter::new(Clock::calibrate(Duration::from_millis(50)));
    for case in sleep::cases() {
        let Some(kumiki_measure::schema::Value::Number(asked)) =
            case.params.get("asked_ns").cloned()
        else {
            panic!("{:?}", case.params);
        };
        let sample = (case.setup)(&place).unwrap().sample(4, &meter).unwrap();
        // Half of it: the clock was calibrated on a machine that may be busy.
        assert!(sample.wall_ns > 2.0 * asked as f64, "{asked}: {sample:?}");
    }
}

#[test]
fn few_cases_are_quick() {
    let quick = cases(&Choice::default()).iter().filter(|case| case.level == Level::Quick).count();
    assert!(quick <= 15, "{quick}");
}
