//! What sleeping and being woken costs on this machine: the one figure that a
//! good threshold depends on. On bare metal it is some microseconds, on a
//! virtual cpu that halts it can be a hundred.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::futex::{self, Scope};
use kumiki_sys::pause::pause;
use rustix::thread::sched_getcpu;

use crate::machine::Machine;
use crate::ticks::Ticks;

/// Sleeps that are measured, at most; of these the lower quartile counts, because
/// what makes a wake slower is other work on the machine.
const ROUNDS: usize = 5;
/// Long enough for the sleeper to fall asleep and its cpu to become idle.
const SETTLE: Duration = Duration::from_micros(150);
/// No round is begun after this, and the thread's end is waited for no longer.
const PATIENCE: Duration = Duration::from_millis(4);
/// Bytes of the thread's stack: not what the caller's next thread may lack.
const STACK: usize = 64 << 10;
/// Tells the measured thread to end.
const OVER: u32 = u32::MAX;
/// Costs that are believed, microseconds. Less than the first no sleep costs; more
/// than the last is none.
const SANE_US: [u64; 2] = [1, 250];
/// Assumed where nothing can be measured, microseconds: no thread can be had, or
/// the other cpu is busy, and a sleeper comes when it gets its turn.
const ASSUMED_US: u64 = 50;

/// Ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Time from the waker's last instruction before its call to the sleeper's first after it.
    pub(crate) sleep: u64,
    pub(crate) microsecond: u64,
}

impl Cost {
    /// A cost above that of any sleep.
    pub(crate) fn dearest(self) -> u64 {
        SANE_US[1] * self.microsecond
    }
}

/// Measures what sleeping and being woken costs here, in ticks of the time stamp counter
/// (nanoseconds where there is none to trust): the time from a store and a
/// futex wake until the sleeper runs on another cpu, the lower quartile of five.
///
/// The first call in a process measures it, with a thread of its own, in 1 to 10 ms; the
/// result is clamped to 1 to 250 µs, and is 50 µs if the other cpu is busy. The sleeper
/// runs on another cpu that this thread may use or, if this thread is bound, that the
/// process's first thread may use; so make the first call (or the first adaptive
/// [`Waiter`](crate::Waiter)) before all threads are bound.
pub fn sleep_cost_ticks() -> u64 {
    cost().sleep
}

/// Cost behind [`sleep_cost_ticks`]. Two threads that call first at the same time both measure, and
/// one result is kept: a lock here could stay locked in the child of a fork(2).
pub(crate) fn cost() -> Cost {
    #[cfg(sim)]
    if let Some(machine) = kumiki_sys::sim::machine() {
        let microsecond = kumiki_sys::sim::TICKS_PER_US;
        return Cost { sleep: machine.sleep_ns() * microsecond / 1000, microsecond };
    }
    static SLEEP: AtomicU64 = AtomicU64::new(0);
    static MICROSECOND: AtomicU64 = AtomicU64::new(0);
    // Acquire and Release: partners of each other, so that both are seen.
    let known = SLEEP.load(Acquire);
    if known != 0 {
        return Cost { sleep: known, microsecond: MICROSECOND.load(Relaxed) };
    }
    let measured = measure(Ticks::of(Machine::this()));
    MICROSECOND.store(measured.microsecond, Relaxed);
    SLEEP.store(measured.sleep, Release);
    measured
}

fn measure(ticks: Ticks) -> Cost {
    let (begin, first) = (Instant::now(), ticks.now());
    let mut sleeps = wakes(ticks);
    // Where nothing was measured this makes the span long enough for the rate.
    pause(Duration::from_millis(1).saturating_sub(begin.elapsed()));
    let (us, elapsed) = (begin.elapsed().as_micros() as u64, ticks.now().wrapping_sub(first));
    judge(&mut sleeps, elapsed / us.max(1))
}

fn judge(sleeps: &mut [u64], microsecond: u64) -> Cost {
    // A tick is never longer than a microsecond, whatever the clocks say.
    let microsecond = microsecond.max(1);
    sleeps.sort_unstable();
    let [least, most] = SANE_US.map(|us| us * microsecond);
    let quartile = sleeps.get(sleeps.len() / 4).copied().filter(|sleep| *sleep <= most);
    let sleep = quartile.unwrap_or(ASSUMED_US * microsecond).clamp(least, most);
    Cost { sleep, microsecond }
}

/// Words that the measuring thread and the measured one write.
#[derive(Debug, Default)]
struct Shared {
    /// Rounds begun, or [`OVER`].
    round: AtomicU32,
    /// Rounds from which the sleeper is back.
    woken: AtomicU32,
    /// Time of its last return.
    at: AtomicU64,
}

impl Shared {
    fn sleeper(&self, partner: Option<usize>, ticks: Ticks) {
        if let Some(cpu) = partner {
            // Refused: then where the kernel likes.
            let _ = affinity::request(None, &CpuSet::from_iter([cpu]));
        }
        for expected in 0..ROUNDS as u32 {
            while self.round.load(Acquire) == expected {
                if futex::wait(&self.round, expected, Scope::Private, None).is_err() {
                    thread::yield_now();
                }
            }
            if self.round.load(Acquire) == OVER {
                return;
            }
            self.at.store(ticks.now(), Relaxed);
            self.woken.store(expected + 1, Release);
        }
    }
}

/// Puts a thread to sleep and wakes it, and says how long each wake took.
fn wakes(ticks: Ticks) -> Vec<u64> {
    let mut taken = Vec::with_capacity(ROUNDS);
    let (shared, partner) = (Arc::new(Shared::default()), partner());
    let theirs = Arc::clone(&shared);
    let builder = thread::Builder::new().name("kumiki-wait-cost".to_owned()).stack_size(STACK);
    let Ok(sleeper) = builder.spawn(move || theirs.sleeper(partner, ticks)) else {
        return taken;
    };
    let begin = Instant::now();
    let mut this = 0;
    while this < ROUNDS as u32 && begin.elapsed() < PATIENCE {
        this += 1;
        pause(SETTLE);
        let start = ticks.now();
        shared.round.store(this, Release);
        let slept = futex::wake(&shared.round, 1, Scope::Private).is_ok_and(|woken| woken == 1);
        while shared.woken.load(Acquire) != this && begin.elapsed() < PATIENCE {
            thread::yield_now();
        }
        if slept && shared.woken.load(Acquire) == this {
            taken.push(shared.at.load(Relaxed).wrapping_sub(start));
        }
    }
    shared.round.store(OVER, Release);
    // Asleep if patience was out before.
    let _ = futex::wake(&shared.round, 1, Scope::Private);
    // Waits for its end, as its place among the processes may be just what the
    // caller's next one needs; but not if it does not get its cpu, which a thread of
    // higher priority may have.
    let over = Instant::now();
    while !sleeper.is_finished() && over.elapsed() < PATIENCE {
        pause(SETTLE / 10);
    }
    taken
}

/// A cpu other than the caller's for the sleeper.
fn partner() -> Option<usize> {
    let own = affinity::unbound().ok()?;
    // A thread bound by the program: the first one knows more, unless it is bound, too.
    let cpus = if own.len() == 1 { affinity::of_process().ok()? } else { own };
    let here = sched_getcpu();
    let others = cpus.iter().filter(|cpu| *cpu > here).chain(cpus.iter());
    others.into_iter().find(|cpu| *cpu != here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_once_and_sane() {
        let Cost { sleep, microsecond } = cost();
        assert!((SANE_US[0] * microsecond..=SANE_US[1] * microsecond).contains(&sleep));
        // Between 100 MHz and 10 GHz, or nanoseconds.
        assert!((100..10_000).contains(&microsecond), "{microsecond}");
        assert_eq!(sleep_cost_ticks(), sleep);
    }

    #[test]
    fn sleeps_are_really_slept() {
        let ticks = Ticks::of(Machine::this());
        // The machine may be busy for some attempts, not for all.
        assert!((0..500).any(|_| !wakes(ticks).is_empty()));
    }

    #[test]
    fn the_lower_quartile_counts_within_limits() {
        let sleep = |mut sleeps: Vec<u64>| judge(&mut sleeps, 1000).sleep;
        assert_eq!(sleep(vec![90_000, 5_000_000, 60_000, 70_000]), 70_000);
        assert_eq!(sleep(vec![250_000]), 250_000);
        assert_eq!(sleep(vec![5_000_000]), 50_000, "the cpu was busy");
        assert_eq!(sleep(vec![3]), 1_000);
        assert_eq!(sleep(vec![]), 50_000);
    }
}
