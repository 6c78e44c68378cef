//! The figures of Hori et al., "A Ultra-light Thread Library Using Hardware
//! Synchronization" (2011): Table 1, Table 2, Figures 5, 6, 8 and 13, and the uses that
//! its text names: a message's latency hidden, a chain read ahead.

mod chase;
mod copy;
mod doze;
mod energy;
mod idle;
mod message;
mod null;
mod over;
mod pair;
mod threshold;
#[cfg_attr(not(target_env = "gnu"), path = "user_thread/none.rs")]
mod user_thread;

use std::time::{Duration, Instant};

use kumiki_measure::case::{Case, Choice, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_shadow::{Builder, Policy, Shadow, Sleep, Threshold};

use crate::{Widened, partner, timed};

/// Polls without PAUSE before a hand-over that takes long polls kindly.
const TIGHT_POLLS: u32 = 4096;
/// Forks before a sample.
const AWAKE: u32 = 4;
/// A sleep in the processor does not show: a helper that sleeps there does so by then.
const DOZES_WITHIN: Duration = Duration::from_micros(100);
/// A sleep in the kernel shows. A helper that has not come to it by then has no cpu.
const SLEEPS_WITHIN: Duration = Duration::from_secs(1);
/// No wait of a case is that long.
const LONG: Duration = Duration::from_secs(3600);
/// Time from there until it is within the kernel.
const SETTLE: Duration = Duration::from_micros(20);

pub(crate) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = null::cases();
    cases.extend(threshold::cases());
    cases.extend(pair::cases());
    cases.extend(idle::cases());
    cases.extend(over::cases());
    cases.extend(doze::cases());
    cases.extend(copy::cases(choice));
    cases.extend(message::cases());
    cases.extend(chase::cases());
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

    /// Forks and joins as a program does it: the join takes back a job that the helper is slow to
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
            while !job.is_done() {
                polls += 1;
                if polls > TIGHT_POLLS {
                    std::hint::spin_loop();
                }
            }
            let _ = job.join();
        });
    }

    /// Hands a job over, and main waits as the helper does: it spins and then sleeps.
    #[inline(always)]
    fn hand_over_waiting(&mut self) {
        // With a limit nothing is taken back.
        self.shadow.scope(|scope| _ = scope.fork(|| ()).join_timeout(LONG));
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
struct Asleep {
    helped: Helped,
    hand_over: fn(&mut Helped),
    /// True if it sleeps in the kernel, so that its sleep shows.
    shows: bool,
}

impl Asleep {
    /// Main spins until the helper has done it.
    fn new(place: &Place) -> Result<Self> {
        let helped = Helped::new(place, waiting(Threshold::Ticks(0)))?;
        let shows = null::sleep() == Sleep::Futex;
        Ok(Asleep { helped, hand_over: Helped::hand_over, shows })
    }

    /// Main sleeps, too.
    fn waiting(place: &Place) -> Result<Self> {
        Ok(Asleep { hand_over: Helped::hand_over_waiting, ..Asleep::new(place)? })
    }

    /// Waits until it is asleep: seen, where it can be seen.
    fn fall_asleep(&self) -> Result<()> {
        let give_up = Instant::now() + if self.shows { SLEEPS_WITHIN } else { DOZES_WITHIN };
        while self.helped.shadow.wake_ticks() == 0 {
            if Instant::now() > give_up {
                if self.shows {
                    let late = format!("the helper did not fall asleep within {SLEEPS_WITHIN:?}");
                    return Err(Error::Invalid(late));
                }
                break;
            }
            std::hint::spin_loop();
        }
        let settled = Instant::now() + SETTLE;
        while Instant::now() < settled {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Workload for Asleep {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::one_by_one(iterations, || {
            self.fall_asleep()?;
            meter.time(|| {
                (self.hand_over)(&mut self.helped);
                Ok(())
            })
        })
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::nothing(iterations, meter)
    }
}

/// Keeps the type of an error by which the machine lacks something, so that the case is skipped.
fn refused(error: kumiki_shadow::Error) -> Error {
    match error {
        kumiki_shadow::Error::Sys(error) => error.into(),
        error => Error::Invalid(format!("no shadow thread: {error}")),
    }
}

/// The policy that the user has chosen, but for its threshold.
fn waiting(threshold: Threshold) -> Policy {
    Policy { threshold, ..crate::chosen() }
}
