//! Figure 8: what waiting costs. The paper took the temperature of the cores;
//! here it is processor time, and power where the machine counts energy.

use std::time::Duration;

use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::schema::{Unit, Value};
use kumiki_measure::{Error, Result};
use kumiki_shadow::Threshold;
use kumiki_sys::pause::pause;

use super::energy::Energy;
use super::{Helped, threshold, waiting};

const CPU: &str = "processor time a second while a helper waits 100 ms for work, against the \
                   ticks that it spins before it sleeps";
const POWER: &str = "power by the machine's energy counters while a helper waits 100 ms for \
                     work, against the ticks that it spins before it sleeps";

/// A wait. The kernel accounts for another cpu's running thread only at ticks
/// (1 to 10 ms), so it is many of them.
const WAIT: Duration = Duration::from_millis(100);

pub(super) fn cases() -> Vec<Case> {
    let adaptive = [(Value::from("adaptive"), Threshold::Adaptive)];
    let thresholds: Vec<_> = threshold::thresholds().chain(adaptive).collect();
    let mut cases: Vec<Case> = thresholds.iter().map(|t| case(t, false)).collect();
    if Energy::find().is_some() {
        cases.extend(thresholds.iter().map(|t| case(t, true)));
    }
    cases
}

fn case((value, threshold): &(Value, Threshold), power: bool) -> Case {
    let policy = waiting(*threshold);
    let setup = move |place: &Place| {
        let lacking = || Error::unsupported("an energy counter", "run as root on bare metal");
        let energy = power.then(|| Energy::find().ok_or_else(lacking)).transpose()?;
        Ok(Idle { helped: Helped::new(place, policy)?, energy })
    };
    let case = match power {
        false => Case::new("shadow.idle", CPU, setup).unit(Unit::Cpus),
        true => Case::new("shadow.idle_power", POWER, setup).unit(Unit::Watts),
    };
    // Those between spin for less than a hundredth of the wait.
    let between = matches!(threshold, Threshold::Ticks(1..100_000_000));
    let level = if between { Level::Default } else { Level::Quick };
    case.with("threshold_ticks", value.clone()).two_cpus().level(level)
}

/// A helper that is left alone.
struct Idle {
    helped: Helped,
    energy: Option<Energy>,
}

impl Workload for Idle {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let before = self.energy.as_ref().map(Energy::read).transpose()?;
        let mut sample = meter.time(|| {
            for _ in 0..iterations {
                // Its wait begins anew.
                self.helped.fork_join();
                pause(WAIT);
            }
            Ok(())
        })?;
        if let (Some(energy), Some(before)) = (&self.energy, before) {
            sample.joules = energy.joules_since(&before)?;
        }
        Ok(sample)
    }

    fn max_batch(&self) -> Option<u64> {
        Some(1)
    }
}
