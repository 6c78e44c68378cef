//! Table 3 and Figure 6: the steps of one gettid(2), made by a processing thread
//! without the requesting thread's help, and the plain call.
//!
//! gettid answers for the thread that makes it, here the processing thread: a
//! program must not hand it over, the paper measured it because it does next to
//! nothing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use kumiki_measure::case::{Case, Each, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_parasc::op::Raw;
use kumiki_parasc::{Config, Operation, Request};
use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::{Policy, Threshold};

use super::errors::refused;
use super::running::{Running, ThreadsGone};
use super::unchecked::gettid;
use crate::{partner, timed};

const ABOUT: &str = "a step of one gettid made by a processing thread on the other cpu (for which \
                     it answers): init until the thread has made its first call, struct, gettid \
                     asleep and awake, end; and the plain call (normal). The paper makes \
                     each 500 times, a run as often as its length allows: see n and batch";

/// Time until a processing thread that does not spin sleeps within the kernel.
pub(super) const ASLEEP: Duration = Duration::from_micros(100);
/// Time a processing thread may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn cases() -> Vec<Case> {
    let init = |place: &Place| Ok(Init(config(place, Threshold::Infinite)?));
    let asleep =
        |place: &Place| Ok(AsleepProcessor(CallMaker::new(&config(place, Threshold::Ticks(0))?)?));
    let awake = |place: &Place| {
        let mut call = CallMaker::new(&config(place, Threshold::Infinite)?)?;
        Ok(Each(move || call.hand_over()))
    };
    let end = |place: &Place| Ok(End(config(place, Threshold::Infinite)?));
    let build = |_: &Place| {
        Ok(Each(|| {
            black_box(&Slot(gettid().request()));
            Ok(())
        }))
    };
    let normal = |_: &Place| {
        Ok(Each(|| {
            black_box(rustix::thread::gettid());
            Ok(())
        }))
    };
    vec![
        step("init", init).two_cpus(),
        step("struct", build),
        step("gettid_asleep", asleep).two_cpus(),
        step("gettid_awake", awake).two_cpus(),
        step("end", end).two_cpus(),
        step("normal", normal),
    ]
}

/// A request in a line of its own, as in the table: on the stack a run in some dozens had it on
/// two pages, where it took 5 ns and not 0.3.
#[repr(align(64))]
pub(super) struct Slot(#[expect(dead_code, reason = "black_box reads it")] pub(super) Request);

fn step<W: Workload + 'static>(name: &str, setup: impl Fn(&Place) -> Result<W> + 'static) -> Case {
    Case::new("parasc.steps", ABOUT, setup).with("step", name)
}

/// One processing thread, on the place's other cpu, that is left to itself.
fn config(place: &Place, threshold: Threshold) -> Result<Config> {
    Ok(Config {
        cpus: Some(CpuSet::from_iter([partner(place)?])),
        policy: Policy { threshold, ..crate::chosen() },
        wrong_thread_answers: true,
        help: false,
        ..Config::default()
    })
}

/// A gettid, and who makes it.
struct CallMaker {
    call: [Raw; 1],
    running: Running,
}

impl CallMaker {
    /// Comes back when the processing thread has made the call once.
    fn new(config: &Config) -> Result<Self> {
        CallMaker::beside(ThreadsGone::then(), config)
    }

    fn beside(gone: ThreadsGone, config: &Config) -> Result<Self> {
        let mut call = CallMaker { call: [gettid()], running: Running::beside(gone, config)? };
        call.hand_over()?;
        Ok(call)
    }

    #[inline]
    fn hand_over(&mut self) -> Result<()> {
        let answers = self.running.requester.run(&mut self.call).map_err(refused)?;
        match answers.as_slice() {
            [answer] if *answer <= 0 => {
                Err(Error::Invalid(format!("gettid gave {answers:?}, which is no thread")))
            }
            _ => Ok(()),
        }
    }
}

/// Step from nothing to a processing thread that has answered.
struct Init(Config);

impl Workload for Init {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::one_by_one(iterations, || {
            let gone = ThreadsGone::then();
            let mut made = None;
            // Dropped, and waited for, after the clock has been read.
            meter.time(|| {
                made = Some(CallMaker::beside(gone, &self.0)?);
                Ok(())
            })
        })
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::nothing(iterations, meter)
    }
}

/// Calls to a processing thread that sleeps before each.
struct AsleepProcessor(CallMaker);

impl Workload for AsleepProcessor {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::one_by_one(iterations, || {
            let asleep = Instant::now() + ASLEEP;
            while Instant::now() < asleep {
                std::hint::spin_loop();
            }
            meter.time(|| self.0.hand_over())
        })
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::nothing(iterations, meter)
    }
}

/// Step from the termination flag to the end of a processing thread that spins.
struct End(Config);

impl Workload for End {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::one_by_one(iterations, || {
            let call = CallMaker::new(&self.0)?;
            let late = || Error::Invalid(format!("a processing thread runs after {PATIENCE:?}"));
            meter.time(|| {
                call.running.engine.shut_down_timeout(PATIENCE).then_some(()).ok_or_else(late)
            })
        })
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        timed::nothing(iterations, meter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters that make these figures those of a processing thread.
    #[test]
    fn gettid_is_answered_by_the_processing_thread() {
        let Some(other) = kumiki_sys::affinity::current().unwrap().iter().nth(1) else {
            return eprintln!("skipped: needs two cpus");
        };
        let first = kumiki_sys::affinity::current().unwrap().first().unwrap();
        let _bound = kumiki_sys::affinity::bind(first).unwrap();
        let place = Place { cpu: first, partner: Some(other), scratch: std::env::temp_dir() };
        let mut call = CallMaker::new(&config(&place, Threshold::Infinite).unwrap()).unwrap();
        let answers = call.running.requester.run(&mut call.call).unwrap();
        assert_ne!(answers, [i64::from(rustix::thread::gettid().as_raw_nonzero().get())]);
        assert_eq!(call.running.engine.threads(), 1);
        assert!(call.running.engine.shut_down_timeout(PATIENCE));
    }
}
