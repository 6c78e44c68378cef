//! The waiting thread: spins, dozes, sleeps.
//!
//! ```text
//!   ready? ── spin ───────────── doze ─────────────── sleep
//!   nothing   threshold ticks    monitor instruction   the bell, futex
//!   is done   no system call     if the machine has    (bell.rs)
//!                                one: a millisecond
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::adapt::Adapt;
use crate::bell::{Bell, SleepEnd, earlier, passed};
use crate::cost;
use crate::doze::doze;
use crate::error::{Error, TimedOut};
use crate::machine::Machine;
use crate::policy::{Doze, Policy, Relax, Sleep, Threshold, Way};
use crate::primitive::{look_again, spin_loop};
use crate::ticks::Ticks;

/// Polls between two readings of the clock. A poll of a cached line takes a cycle or two,
/// reading the counter some 30.
const TIGHT_LOOKS: u32 = if cfg!(sim) { 1 } else { 64 };
/// Polls where PAUSE follows each poll, which takes 40 to 140 cycles.
const PAUSED_LOOKS: u32 = if cfg!(sim) { 1 } else { 8 };
/// Time that `Relax::Tight` spins without PAUSE: 2 to 5 µs.
const TIGHT_TICKS: u64 = 10_000;
/// Interval at which a spin with a deadline asks the kernel's clock.
const DEADLINE_TICKS: u64 = 4_000;
/// The lowest adaptive threshold, microseconds.
const FLOOR_US: u64 = 2;
/// Divisor of a sleep's cost that gives the lowest threshold, too, so that a wait that ends in a
/// sleep takes at most an eighth longer. With a lower floor, where a sleep costs tens of
/// microseconds, a thread is falling asleep just as the next job of a run comes: at a sixteenth,
/// one process in six copied 1 MiB alone just after a job.
const FLOOR_SHARE: u64 = 8;
/// The longest doze before the kernel gets the cpu.
const LONGEST_DOZE: Duration = Duration::from_millis(1);

/// Numbers of the ends that the waits of one [`Waiter`] had. A wait whose answer was there at once
/// is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waits that ended while spinning.
    pub spun: u64,
    /// Waits that ended by a monitor instruction.
    pub dozed: u64,
    /// Waits that ended in futex(2), or on the way there.
    pub slept: u64,
}

/// Waits of one thread, and the knowledge gained from them. Keep a waiter for each kind of wait:
/// the adaptive threshold is learnt from the waits of one waiter.
#[derive(Clone, Debug)]
pub struct Waiter {
    ticks: Ticks,
    adapt: Adapt,
    /// Ticks to spin without PAUSE.
    tight: u64,
    counts: Counts,
    way: Way,
}

impl Waiter {
    /// A waiter for the calling thread.
    ///
    /// The first in a process makes it asymmetric (see
    /// [`barrier`](crate::barrier)), and the first adaptive one measures [what a
    /// sleep costs](crate::sleep_cost_ticks): some milliseconds each.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the machine lacks the way to sleep that the policy has chosen.
    pub fn new(policy: &Policy) -> Result<Self, Error> {
        let machine = Machine::this();
        let way = Way::choose(policy.sleep, machine)?;
        if way.futex && policy.threshold != Threshold::Infinite {
            // Decides it before the first wake and the first sleep need it.
            crate::barrier::is_asymmetric();
        }
        let adapt = match policy.threshold {
            Threshold::Ticks(ticks) => Adapt::fixed(ticks),
            Threshold::Infinite => Adapt::fixed(u64::MAX),
            Threshold::Adaptive => {
                let cost = cost::cost();
                let floor = (FLOOR_US * cost.microsecond).max(cost.sleep / FLOOR_SHARE);
                Adapt::between(floor, cost.sleep, cost.dearest())
            }
        };
        let tight = match policy.relax {
            Relax::Tight => TIGHT_TICKS,
            Relax::Pause => 0,
            Relax::Auto if machine.smt => 0,
            Relax::Auto => TIGHT_TICKS,
        };
        Ok(Waiter { ticks: Ticks::of(machine), adapt, tight, counts: Counts::default(), way })
    }

    /// Waits until `ready` returns something, and returns that.
    ///
    /// `ready` is polled; it loads what it depends on with Acquire. The waker makes it
    /// true by a store (with Release), then [rings](Bell::ring) `bell`. `word` is the
    /// target of that store: only its cache line matters, which the monitor instructions
    /// watch. (A dozing thread notices other stores too, but up to 50 µs later.)
    ///
    /// No other thread may wait with `bell` at the same time.
    #[inline]
    pub fn wait<W: Sync, T>(
        &mut self,
        bell: &Bell,
        word: &W,
        mut ready: impl FnMut() -> Option<T>,
    ) -> T {
        match self.wait_for(bell, word, None, &mut ready) {
            Ok(value) => value,
            Err(TimedOut) => unreachable!("there is no deadline"),
        }
    }

    /// Waits as [`wait`](Self::wait), until `deadline`; if that has passed already, `ready` is
    /// polled once.
    ///
    /// # Errors
    /// [`TimedOut`], never before the deadline, and after one last poll of `ready`.
    #[inline]
    pub fn wait_deadline<W: Sync, T>(
        &mut self,
        bell: &Bell,
        word: &W,
        deadline: Instant,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T, TimedOut> {
        self.wait_for(bell, word, Some(deadline), &mut ready)
    }

    /// Numbers of the ends that the waits had.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The way to sleep on this machine; never `Auto`.
    pub fn sleep(&self) -> Sleep {
        self.way.sleep
    }

    #[inline(always)]
    fn wait_for<W: Sync, T>(
        &mut self,
        bell: &Bell,
        word: &W,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Option<T>,
    ) -> Result<T, TimedOut> {
        if let Some(value) = ready() {
            return Ok(value);
        }
        let start = self.ticks.now();
        if let Some(outcome) = self.spin(start, deadline, ready) {
            return outcome;
        }
        self.rest(bell, (&raw const *word).cast(), start, deadline, ready)
    }

    /// Spins for the threshold. The path from a store of another core to the
    /// return from here is that of a bare loop over `ready`.
    #[inline(always)]
    fn spin<T>(
        &mut self,
        start: u64,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Option<T>,
    ) -> Option<Result<T, TimedOut>> {
        let (mut spent, mut asked) = (0, 0);
        while spent < self.adapt.threshold() {
            // The black boxes keep the compiler from writing `ready` out 64 times.
            if spent < self.tight {
                for _ in 0..black_box(TIGHT_LOOKS) {
                    if let Some(value) = ready() {
                        return Some(Ok(self.has_spun(spent, value)));
                    }
                    look_again();
                }
            } else {
                for _ in 0..black_box(PAUSED_LOOKS) {
                    if let Some(value) = ready() {
                        return Some(Ok(self.has_spun(spent, value)));
                    }
                    spin_loop();
                }
            }
            spent = self.ticks.now().wrapping_sub(start);
            if let Some(deadline) = deadline {
                if spent.wrapping_sub(asked) >= DEADLINE_TICKS {
                    asked = spent;
                    if passed(deadline) {
                        return Some(ready().ok_or(TimedOut));
                    }
                }
            }
        }
        None
    }

    #[inline(always)]
    fn has_spun<T>(&mut self, spent: u64, value: T) -> T {
        self.counts.spun += 1;
        self.adapt.spun(spent);
        value
    }

    /// Dozes and sleeps.
    #[cold]
    #[inline(never)]
    fn rest<T>(
        &mut self,
        bell: &Bell,
        address: *const u8,
        start: u64,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Option<T>,
    ) -> Result<T, TimedOut> {
        if let Some(value) = self.doze(address, deadline, ready) {
            self.counts.dozed += 1;
            self.adapt.slept(self.ticks.now().wrapping_sub(start), None);
            return Ok(value);
        }
        // Spares a sleep that would end at once.
        let outcome = match deadline {
            Some(deadline) if passed(deadline) => {
                ready().map(|value| (value, SleepEnd::Awake)).ok_or(TimedOut)
            }
            _ => bell.sleep(deadline, ready),
        };
        let now = self.ticks.now();
        let total = now.wrapping_sub(start);
        match outcome {
            Ok((_, SleepEnd::Awake)) => self.adapt.spared(total),
            Ok((_, SleepEnd::Asleep)) => self.adapt.slept(total, None),
            Ok((_, SleepEnd::Rung { at })) => self.adapt.slept(total, self.ticks.since(at, now)),
            Err(TimedOut) => self.adapt.missed(total),
        }
        self.counts.slept += u64::from(outcome.is_ok());
        outcome.map(|(value, _)| value)
    }

    fn doze<T>(
        &self,
        address: *const u8,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let until = || {
            let give_way = self.way.futex.then(|| Instant::now() + LONGEST_DOZE);
            earlier(deadline, give_way)
        };
        match self.way.doze {
            Doze::None => None,
            Doze::Umwait(monitor) => doze(&monitor, address, until(), ready),
            Doze::Mwaitx(monitor) => doze(&monitor, address, until(), ready),
            Doze::Mwait(monitor) => doze(&monitor, address, until(), ready),
            #[cfg(test)]
            Doze::Pretended(monitor) => doze(&monitor, address, until(), ready),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::{Acquire, Release};
    use std::thread;

    use super::*;
    use crate::doze::Pretended;

    thread_local! {
        static RESTS: Cell<u32> = const { Cell::new(0) };
    }

    fn rest() {
        RESTS.set(RESTS.get() + 1);
        thread::sleep(Duration::from_micros(50));
    }

    /// Makes a waiter that dozes at once, by a monitor that is none.
    fn dozer(futex: bool) -> Waiter {
        let policy =
            Policy { threshold: Threshold::Ticks(0), sleep: Sleep::Futex, ..Policy::default() };
        let way = Way { sleep: Sleep::Umwait, doze: Doze::Pretended(Pretended(rest)), futex };
        Waiter { way, ..Waiter::new(&policy).unwrap() }
    }

    const DOZED: Counts = Counts { spun: 0, dozed: 1, slept: 0 };
    const SLEPT: Counts = Counts { spun: 0, dozed: 0, slept: 1 };

    #[test]
    fn a_doze_goes_on_until_it_finds_the_answer() {
        // Nobody rings: it may not give way to the kernel, however long its rests take.
        let mut waiter = dozer(false);
        let ready = || (RESTS.get() >= 3).then_some(());
        waiter.wait(&Bell::new(), &0, ready);
        assert_eq!((RESTS.get(), waiter.counts()), (3, DOZED));
    }

    #[test]
    fn a_long_doze_gives_way_to_the_kernel_where_that_is_allowed() {
        for (futex, counts) in [(true, SLEPT), (false, DOZED)] {
            let bell = Bell::new();
            let (polled, answered) = (AtomicBool::new(false), AtomicBool::new(false));
            thread::scope(|threads| {
                threads.spawn(|| {
                    while !polled.load(Acquire) {
                        thread::yield_now();
                    }
                    // However long the waiter is kept from its cpu.
                    let (start, most) = (Instant::now(), if futex { 1000 } else { 3 });
                    while !(futex && bell.is_asleep()) && start.elapsed() < most * LONGEST_DOZE {
                        thread::yield_now();
                    }
                    answered.store(true, Release);
                    bell.ring();
                });
                let mut waiter = dozer(futex);
                waiter.wait(&bell, &0, || {
                    polled.store(true, Release);
                    answered.load(Acquire).then_some(())
                });
                assert_eq!(waiter.counts(), counts, "futex {futex}");
            });
        }
    }

    #[test]
    fn a_deadline_ends_a_doze() {
        for futex in [true, false] {
            let deadline = Instant::now() + LONGEST_DOZE / 2;
            let mut waiter = dozer(futex);
            let outcome = waiter.wait_deadline(&Bell::new(), &0, deadline, || None::<()>);
            assert_eq!((outcome, waiter.counts()), (Err(TimedOut), Counts::default()));
            assert!(Instant::now() >= deadline);
        }
    }
}
