//! Waking a thread that sleeps on a futex: what it costs the waker, and how
//! long it takes until the woken one has woken the waker in turn.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use kumiki_sys::pause::pause;
use rustix::thread::futex::Flags;

use crate::ipc::caller::{Caller, InProcess};
use crate::ipc::token;
use crate::other_end::OtherEnd;
use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::helper::{Helper, Part};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::schema::CpuTime;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for end in OtherEnd::BOTH {
        cases.push(end.mark(Case::new(
            "thread.wake.round_trip",
            "wake a thread that sleeps on a futex and sleep until it wakes the waker",
            move |place: &Place| {
                Ok(RoundTrips(Helper::start(end.cpu(place)?, Sleeper::default())?))
            },
        )));
        for (asleep_ns, level) in [(50_000, Level::Quick), (1_000_000, Level::Default)] {
            let case = end.mark(Case::new(
                "thread.wake.call",
                "the waker's futex call alone, the other thread having slept for this long",
                move |place: &Place| Calls::start(end, place, Duration::from_nanos(asleep_ns)),
            ));
            let level = if end == OtherEnd::Same { Level::Default } else { level };
            cases.push(case.with("asleep_ns", asleep_ns).level(level));
        }
    }
    cases
}

/// A thread that sleeps until called, answers, and sleeps again.
#[derive(Default)]
struct Sleeper {
    call: AtomicU32,
    answer: AtomicU32,
}

const CALL: u32 = 1;
const QUIT: u32 = 2;

impl Part for Sleeper {
    fn help(&self) {
        while let Ok(CALL) = token::take(&InProcess, &self.call, Flags::PRIVATE) {
            if token::pass(&self.answer, CALL, Flags::PRIVATE).is_err() {
                return;
            }
        }
    }

    fn stop(&self) {
        // Waking a word that is mapped cannot fail.
        let _ = token::pass(&self.call, QUIT, Flags::PRIVATE);
    }
}

impl Sleeper {
    /// Calls it. Says whether it slept.
    #[inline]
    fn call(&self) -> Result<bool> {
        let woken =
            InProcess.call("wake a thread", || token::pass(&self.call, CALL, Flags::PRIVATE))?;
        Ok(woken == 1)
    }

    /// Sleeps until it answers.
    #[inline]
    fn answer(&self) -> Result<()> {
        token::take(&InProcess, &self.answer, Flags::PRIVATE).map(drop)
    }
}

struct RoundTrips(Helper<Sleeper>);

impl Workload for RoundTrips {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let sleeper = self.0.part();
        meter.time(|| {
            for _ in 0..iterations {
                sleeper.call()?;
                sleeper.answer()?;
            }
            Ok(())
        })
    }
}

/// Each call is timed on its own, and only if it found the other asleep.
struct Calls {
    helper: Helper<Sleeper>,
    end: OtherEnd,
    asleep: Duration,
}

impl Calls {
    fn start(end: OtherEnd, place: &Place, asleep: Duration) -> Result<Self> {
        Ok(Calls { helper: Helper::start(end.cpu(place)?, Sleeper::default())?, end, asleep })
    }

    /// Lets the other thread fall asleep and sleep for a while.
    fn let_sleep(&self) {
        match self.end {
            // It needs this cpu to get there.
            OtherEnd::Same => pause(self.asleep),
            // Stay awake: the waker's caches and clock frequency are not to
            // depend on the time.
            OtherEnd::Other => {
                let start = std::time::Instant::now();
                while start.elapsed() < self.asleep {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// Calls in a row that may find the other thread awake.
const ATTEMPTS: u32 = 1000;

impl Workload for Calls {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let sleeper = self.helper.part();
        let clock = meter.clock();
        let mut wall_ns = 0.0;
        for _ in 0..iterations {
            let mut attempts = 0..ATTEMPTS;
            loop {
                if attempts.next().is_none() {
                    return Err(Error::Invalid(format!(
                        "the thread to be woken did not fall asleep in {ATTEMPTS} attempts"
                    )));
                }
                self.let_sleep();
                let start = clock.start();
                let slept = sleeper.call()?;
                let end = clock.end();
                sleeper.answer()?;
                if slept {
                    wall_ns += clock.ns(end.saturating_sub(start));
                    break;
                }
            }
        }
        // The call does not block: it computes from its begin to its end.
        let cpu = CpuTime { system_ns: wall_ns, ..CpuTime::default() };
        Ok(Sample { wall_ns, cpu, ..Sample::default() })
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let clock = meter.clock();
        let pair = |_| {
            let start = clock.start();
            let end = clock.end();
            clock.ns(end.saturating_sub(start))
        };
        Ok(Sample { wall_ns: (0..iterations).map(pair).sum(), ..Sample::default() })
    }

    fn max_batch(&self) -> Option<u64> {
        // Most of the time goes by asleep.
        Some(16)
    }
}
