//! How long a short sleep really is.

use rustix::thread::{NanosleepRelativeResult, nanosleep};
use rustix::time::Timespec;

use kumiki_measure::case::{Case, Each, Level, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

pub(super) fn cases() -> Vec<Case> {
    let sizes = [
        (1, Level::Default),
        (10_000, Level::Default),
        (100_000, Level::Quick),
        (1_000_000, Level::Default),
    ];
    let case = |(asked_ns, level)| {
        let about = "real time that a nanosleep takes, timer slack (usually 50 µs) included";
        Case::new("thread.nanosleep", about, move |_| Ok(Sleeps { asked_ns }))
            .with("asked_ns", asked_ns)
            .level(level)
    };
    sizes.map(case).into()
}

struct Sleeps {
    asked_ns: u64,
}

impl Workload for Sleeps {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let asked = self.asked_ns;
        Each(|| sleep(asked)).sample(iterations, meter)
    }

    fn max_batch(&self) -> Option<u64> {
        // So that a sample stays in the milliseconds.
        Some((5_000_000 / (self.asked_ns + 60_000)).max(1))
    }
}

fn sleep(ns: u64) -> Result<()> {
    let (tv_sec, tv_nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64);
    let mut left = Timespec { tv_sec, tv_nsec };
    loop {
        match nanosleep(&left) {
            NanosleepRelativeResult::Ok => return Ok(()),
            NanosleepRelativeResult::Interrupted(rest) => left = rest,
            NanosleepRelativeResult::Err(e) => return Err(Error::os(format!("sleep {ns} ns"), e)),
        }
    }
}
