//! The costs of this machine, measured once a process, little by little.
//!
//! What is known is behind no lock: a child of fork(2) might find it held by a thread
//! that it does not have. What is being measured is, and who finds that taken goes
//! without.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use kumiki_wait::Deadline;

use crate::costs::{Costs, ticks};
use crate::error::{Error, Result};
use crate::measuring::Measuring;
use crate::pair::Pair;

/// The share of its own time that a copy spends on measuring while nothing is known, one part in so
/// many; or one step of a microsecond or a few, for which later copies then spend nothing.
/// Row `copy_first`.
const SHARE: u64 = 40;
/// A step that took more ticks has lost its cpu, which no later copy pays for. Row `copy_first`.
const LONGEST_STEP: u64 = 100_000;

/// Costs in one line: each copy reads it, and mostly from a far cache.
#[repr(align(64))]
struct Known {
    /// 0 while it is not known.
    fork: AtomicU64,
    first: AtomicU64,
    probe: AtomicU64,
    stream_from: AtomicUsize,
    /// Written last; 0 until then.
    later: AtomicU64,
}

static KNOWN: Known = Known {
    fork: AtomicU64::new(0),
    first: AtomicU64::new(0),
    probe: AtomicU64::new(0),
    stream_from: AtomicUsize::new(0),
    later: AtomicU64::new(0),
};

/// Bytes of the largest data cache that a core has to itself, where nobody has read of
/// them: typical ones. Row `copy_first`.
const CORE_CACHE: usize = 1 << 20;

static LEARNING: Mutex<Learning> = Mutex::new(Learning { measuring: Measuring::NEW, debt: 0 });

/// The measuring under way, and the ticks still to be earned for it.
struct Learning {
    measuring: Measuring,
    debt: u64,
}

/// The costs, if they were measured.
#[inline(always)]
pub(crate) fn known() -> Option<Costs> {
    let later_ticks = KNOWN.later.load(Ordering::Acquire);
    (later_ticks > 0).then(|| Costs {
        fork_ticks: Some(KNOWN.fork.load(Ordering::Relaxed)).filter(|&ticks| ticks > 0),
        first_ticks: KNOWN.first.load(Ordering::Relaxed),
        probe_ticks: KNOWN.probe.load(Ordering::Relaxed),
        later_ticks,
        stream_from: KNOWN.stream_from.load(Ordering::Relaxed),
    })
}

/// Measures what a copy of so many ticks has earned, of what is not known.
#[cold]
pub(crate) fn learn<P: Pair>(pair: &mut P, copied: u64, deadline: &Deadline) {
    // Another thread is at it, or was when this process was forked; or a fork has panicked.
    let Ok(mut learning) = LEARNING.try_lock() else { return };
    let Learning { measuring, debt } = &mut *learning;
    spend(debt, copied / SHARE, || {
        // A helper that sleeps is not woken for that.
        let forks = measuring.knows_memory() && (pair.wake_ticks() > 0 || !pair.is_free());
        if measuring.is_done() || forks || deadline.passed() {
            return None;
        }
        let start = ticks();
        measuring.step(pair);
        publish(measuring, pair);
        Some(ticks().saturating_sub(start).min(LONGEST_STEP))
    });
}

/// Takes steps, which say how many ticks they took, while more was earned than spent.
fn spend(debt: &mut u64, earned: u64, mut step: impl FnMut() -> Option<u64>) {
    let mut left = earned.saturating_sub(*debt);
    *debt = debt.saturating_sub(earned);
    while left > 0 {
        let Some(ticks) = step() else { return };
        *debt = ticks.saturating_sub(left);
        left = left.saturating_sub(ticks);
    }
}

/// Measures all that is not known, until the deadline. What was measured by then is kept.
pub(crate) fn measure<P: Pair>(pair: &mut P, deadline: &Deadline) -> Result<()> {
    let mut own = Measuring::NEW;
    let mut shared = LEARNING.try_lock();
    let measuring = shared.as_mut().map_or(&mut own, |learning| &mut learning.measuring);
    while !measuring.is_done() {
        if deadline.passed() {
            let (done, of) = (measuring.done(), Measuring::STEPS);
            return Err(Error::late(*deadline, "measurements were made", done, of));
        }
        measuring.step(pair);
    }
    publish(measuring, pair);
    Ok(())
}

/// True if there is nothing to be measured.
pub(crate) fn is_all() -> bool {
    known().is_some_and(|costs| costs.fork_ticks.is_some())
}

/// Tells all copies, once memory is known and once all is.
fn publish(measuring: &Measuring, pair: &impl Pair) {
    if known().is_some() && !measuring.is_done() {
        return;
    }
    let Some(costs) = measuring.costs(pair.core_cache_bytes().unwrap_or(CORE_CACHE)) else {
        return;
    };
    KNOWN.fork.store(costs.fork_ticks.unwrap_or(0), Ordering::Relaxed);
    KNOWN.first.store(costs.first_ticks, Ordering::Relaxed);
    KNOWN.probe.store(costs.probe_ticks, Ordering::Relaxed);
    KNOWN.stream_from.store(costs.stream_from, Ordering::Relaxed);
    KNOWN.later.store(costs.later_ticks, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_spend_a_share_and_at_most_one_step_more() {
        let (mut debt, mut earned, mut spent) = (0, 0, 0);
        let mut steps = [1, 7, 300, 5, 2, 2].into_iter().cycle();
        for copy in (0..1000).map(|at| at % 13) {
            let before = spent;
            earned += copy;
            spend(&mut debt, copy, || {
                assert!(spent < earned, "a step that nobody has earned");
                let ticks = steps.next()?;
                spent += ticks;
                Some(ticks)
            });
            assert!(spent == before || spent < before + copy + 300);
            assert_eq!(spent - earned, debt);
        }
        assert!(earned > 5000 && spent < earned + 300);
    }

    #[test]
    fn what_is_not_spent_is_lost() {
        let mut debt = 0;
        spend(&mut debt, 1_000_000, || None);
        spend(&mut debt, 10, || Some(25));
        assert_eq!(debt, 15);
        spend(&mut debt, 15, || unreachable!("nothing is left of it"));
        assert_eq!(debt, 0);
    }
}
