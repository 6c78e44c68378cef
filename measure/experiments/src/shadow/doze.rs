//! What a doze saves, on every machine that has one: how much of it the processor really
//! sleeps, by the time stamp counter. The paper's figure 8 has the temperature instead.

use std::time::Duration;

use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::schema::{CpuTime, Unit};
use kumiki_measure::{Error, Result};
use kumiki_wait::{Sleep, rested};

const ABOUT: &str = "of a wait by UMWAIT or MWAITX what the processor was awake: 0 where it slept \
                     all the time, 1 where each sleep ended at once";

/// A wait.
const WAIT: Duration = Duration::from_millis(20);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("shadow.idle_doze", ABOUT, |_: &Place| Dozing::new())
            .unit(Unit::Cpus)
            .level(Level::Default),
    ]
}

/// The calling thread, which dozes.
struct Dozing {
    sleep: Sleep,
}

impl Dozing {
    fn new() -> Result<Self> {
        let sleep = crate::chosen().sleep;
        rested(sleep, Duration::ZERO).map_err(lacking)?;
        Ok(Dozing { sleep })
    }
}

impl Workload for Dozing {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let mut ticks = [0; 2];
        let sample = meter.time(|| {
            for _ in 0..iterations {
                let one = rested(self.sleep, WAIT).map_err(lacking)?;
                ticks = [ticks[0] + one.rested, ticks[1] + one.total];
            }
            Ok(())
        })?;
        let awake = 1.0 - ticks[0] as f64 / ticks[1].max(1) as f64;
        let cpu = CpuTime { user_ns: awake * sample.wall_ns, ..CpuTime::default() };
        Ok(Sample { cpu, ..sample })
    }

    fn overhead(&mut self, _: u64, _: &Meter) -> Result<Sample> {
        Ok(Sample::default())
    }

    fn max_batch(&self) -> Option<u64> {
        Some(1)
    }
}

/// Keeps the type of an error by which the machine lacks something, so that the case is skipped.
fn lacking(error: kumiki_wait::Error) -> Error {
    match error {
        kumiki_wait::Error::Unsupported { feature, needs } => Error::unsupported(feature, needs),
        error => Error::Invalid(error.to_string()),
    }
}
