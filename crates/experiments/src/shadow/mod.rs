//! The figures of Hori et al., "A Ultra-light Thread Library Using Hardware
//! Synchronization" (2011): Table 1, Table 2, Figures 5, 6, 8 and 13.

mod copy;
mod energy;
mod idle;
mod null;
mod pair;
mod threshold;
mod user_thread;

use std::time::{Duration, Instant};

use kumiki_measure::case::{Case, Choice, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_shadow::{Builder, Policy, Shadow, Threshold};

use crate::{Widened, partner, timed};

/// Polls without PAUSE before a hand-over that takes long polls kindly.
const TIGHT_POLLS: u32 = 4096;
/// Forks before a sample.
const AWAKE: u32 = 4;
/// Until the helper sleeps, at most; a sleep in the processor does not show.
const ASLEEP_WITHIN: Duration = Duration::from_micros(100);
/// From there until it is within the kernel.
const SETTLE: Duration = Duration::from_micros(20);

pub(crate) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = null::cases();
    cases.extend(threshold::cases());
    cases.extend(pair::cases());
    cases.extend(idle::cases());
    cases.extend(copy::cases(choice));
    cases
}

/// The calling thread with a helper on the place's other cpu.
struct Helped {
    shadow: Shadow,
    // After the shadow, which gives the thread the cpus back that it found.
    _cpus: Widened,
}

impl Helped {
    fn new(place: &Place, policy: Policy) -> Result<Self> {
        let partner = partner(place)?;
        let cpus = Widened::to([place.cpu, partner])?;
        let builder = Builder::new().main_cpu(place.cpu).helper_cpu(partner).share();
        let shadow = builder.policy(policy).create().map_err(refused)?;
        Ok(Helped { shadow, _cpus: cpus })
    }

    /// As a program does it: the join takes back what the helper is slow to
    /// begin.
    #[inline(always)]
    fn fork_join(&mut self) {
        // Nothing does not panic.
        let _ = self.shadow.scope(|scope| scope.fork(|| ()).join());
    }

    /// Fork and join where only the helper may run the job, however long it
    /// takes to come.
    #[inline(always)]
    fn hand_over(&mut self) {
        self.shadow.scope(|scope| {
            let job = scope.fork(|| ());
            let mut polls = 0;
            while !job.is_finished() {
                polls += 1;
                if polls > TIGHT_POLLS {
                    std::hint::spin_loop();
                }
            }
            let _ = job.join();
        });
    }
}

/// An operation again and again, with the helper awake when the clock starts.
struct Hot<F>(Helped, F);

impl<F: FnMut(&mut Helped)> Workload for Hot<F> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let Hot(helped, operation) = self;
        // The first one may wake it, at many times the price.
        (0..AWAKE).for_each(|_| operation(helped));
        meter.time(|| {
            (0..iterations).for_each(|_| operation(helped));
            Ok(())
        })
    }
}

/// A helper that sleeps before each request.
struct Asleep(Helped);

impl Asleep {
    fn new(place: &Place) -> Result<Self> {
        Ok(Asleep(Helped::new(place, waiting(Threshold::Ticks(0)))?))
    }

    fn fall_asleep(&self) {
        let give_up = Instant::now() + ASLEEP_WITHIN;
        while self.0.shadow.wake_ticks() == 0 && Instant::now() < give_up {
            std::hint::spin_loop();
        }
        let settled = Instant::now() + SETTLE;
        while Instant::now() < settled {
            std::hint::spin_loop();
        }
    }
}

impl Workload for Asleep {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::one_by_one(iterations, || {
            self.fall_asleep();
            meter.time(|| {
                self.0.hand_over();
                Ok(())
            })
        })
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::nothing(iterations, meter)
    }
}

/// What the machine lacks stays that, so that the case is skipped by type.
fn refused(error: kumiki_shadow::Error) -> Error {
    match error {
        kumiki_shadow::Error::Sys(error) => error.into(),
        error => Error::Invalid(format!("no shadow thread: {error}")),
    }
}

/// A policy that differs from the default in its threshold.
fn waiting(threshold: Threshold) -> Policy {
    Policy { threshold, ..Policy::default() }
}
