//! Figure 8 with its time axis: main waits in a join, and every other cpu has a helper
//! that waits for work, while the wait grows old.

use std::time::Duration;

use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::schema::Unit;
use kumiki_measure::{Error, Result};
use kumiki_shadow::{Builder, Policy, Shadow, Threshold};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::pause::pause;

use super::threshold::{LOOK, infinite, ticks};
use super::{LONG, refused, waiting};
use crate::{Widened, partner, timed};

const ABOUT: &str = "processor time a second of a main thread that waits in a join and of helpers \
                     on all other cpus that wait for work, against the ticks that they spin \
                     before they sleep, after so much of the wait";

/// The paper's numbers as ticks, and its last one as the looks that it counts, each beside the one that
/// never sleeps.
const TICKS: [u64; 6] =
    [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 1_000_000_000 * LOOK];
/// Age of the wait. 10⁹ ticks are 0.3 to 0.5 s.
const AFTER_MS: [u64; 5] = [0, 200, 400, 600, 800];
/// The rest of the paper's axis, once a run. 10⁹ looks turn there at 4 to 6 s.
const LATE_MS: [u64; 5] = [2_000, 4_000, 6_000, 10_000, 20_000];
/// Thresholds that are not long over by then, in ticks.
const LATE: u64 = 1_000_000_000;
/// Time that is counted from there: the kernel accounts for another cpu's running thread at its
/// ticks only, 1 to 10 ms.
const COUNTED: Duration = Duration::from_millis(100);

pub(super) fn cases() -> Vec<Case> {
    // The sampler binds the thread before it sets a case up.
    let Ok(cpus) = affinity::current() else { return Vec::new() };
    let thresholds = TICKS.into_iter().map(ticks).chain([infinite()]);
    let each = thresholds.flat_map(|(value, threshold)| {
        let is_late = !matches!(threshold, Threshold::Ticks(ticks) if ticks < LATE);
        let late = LATE_MS.into_iter().filter(move |_| is_late);
        AFTER_MS.into_iter().chain(late).map(move |after| (value.clone(), threshold, after))
    });
    each.map(|(value, threshold, after_ms)| {
        let (cpus, policy) = (cpus.clone(), waiting(threshold));
        let after = Duration::from_millis(after_ms);
        let setup = move |place: &Place| Waiting::new(place, &cpus, policy, after);
        let case = Case::new("shadow.idle_over", ABOUT, setup).unit(Unit::Cpus).two_cpus();
        let case =
            case.with("threshold_ticks", value).with("after_ms", after_ms).level(Level::Full);
        if after_ms < LATE_MS[0] { case } else { case.once() }
    })
    .collect()
}

struct Waiting {
    /// Shadows: of the first one main joins a job; the others wait for work.
    shadows: Vec<Shadow>,
    after: Duration,
    // After the shadows, which give the thread the cpus back that it found.
    _cpus: Widened,
}

impl Waiting {
    fn new(place: &Place, cpus: &CpuSet, policy: Policy, after: Duration) -> Result<Self> {
        partner(place)?;
        let widened = Widened::to(cpus.iter())?;
        let beside = cpus.iter().filter(|cpu| *cpu != place.cpu).map(|cpu| {
            let builder = Builder::new().main_cpu(place.cpu).helper_cpu(cpu).share();
            builder.policy(policy).create().map_err(refused)
        });
        let shadows = beside.collect::<Result<_>>()?;
        Ok(Waiting { shadows, after, _cpus: widened })
    }
}

impl Workload for Waiting {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let after = self.after;
        timed::one_by_one(iterations, || {
            // All waits begin anew.
            for shadow in &mut self.shadows {
                shadow.scope(|scope| _ = scope.fork(|| ()).join_timeout(LONG));
            }
            let first = self.shadows.first_mut();
            let first = first.ok_or_else(|| Error::unsupported("a second cpu", "allow two"))?;
            let counted = first.scope(|scope| {
                let job = scope.fork(|| {
                    pause(after);
                    meter.time(|| {
                        pause(COUNTED);
                        Ok(())
                    })
                });
                // A pause takes no hour, and clocks do not panic.
                job.join_timeout(LONG).ok().and_then(|ended| ended.ok())
            });
            counted.unwrap_or_else(|| Err(Error::Invalid("the wait was not counted".to_owned())))
        })
    }

    fn overhead(&mut self, _: u64, _: &Meter) -> Result<Sample> {
        Ok(Sample::default())
    }

    fn max_batch(&self) -> Option<u64> {
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use kumiki_measure::schema::Value;
    use kumiki_shadow::Sleep;
    use kumiki_sys::clock::Clock;

    use super::*;

    #[test]
    fn ages_of_seconds_reach_the_papers_twenty_and_take_two_minutes_of_a_run() {
        let late = |case: &Case| match case.params["after_ms"] {
            Value::Number(ms) if ms >= 1_000 => Some(ms),
            _ => None,
        };
        let cases = cases();
        assert!(cases.iter().all(|case| case.once == late(case).is_some()));
        let late: Vec<u64> = cases.iter().filter_map(late).collect();
        assert_eq!(late.iter().max(), Some(&20_000));
        assert!(late.iter().sum::<u64>() <= 130_000, "{late:?}");
    }

    #[test]
    fn main_and_a_helper_on_each_other_cpu_wait_as_they_were_told() {
        let cpus = affinity::current().unwrap();
        let mut two = cpus.iter();
        let (Some(cpu), partner @ Some(_)) = (two.next(), two.next()) else {
            return eprintln!("skipped: needs two cpus");
        };
        let place = Place { cpu, partner, scratch: std::env::temp_dir() };
        let meter = Meter::new(Clock::calibrate(Duration::from_millis(10)));
        let sampled = |policy| {
            let mut waiting = Waiting::new(&place, &cpus, policy, Duration::ZERO).unwrap();
            assert_eq!(waiting.shadows.len(), cpus.len() - 1);
            let sample = waiting.sample(1, &meter).unwrap();
            assert!(sample.wall_ns >= COUNTED.as_nanos() as f64, "{sample:?}");
            waiting
        };
        let spinning = sampled(waiting(Threshold::Infinite));
        assert!(spinning.shadows.iter().all(|shadow| shadow.wake_ticks() == 0));
        drop(spinning);
        // In the kernel, where sleep shows; on a busy machine they come to it late.
        let asleep = sampled(Policy { sleep: Sleep::Futex, ..waiting(Threshold::Ticks(0)) });
        while !asleep.shadows.iter().all(|shadow| shadow.wake_ticks() > 0) {
            std::thread::yield_now();
        }
    }
}
