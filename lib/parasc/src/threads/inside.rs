//! A processing thread's stay inside the kernel, where the module makes the calls of lanes.
//!
//! It comes back for what only this process has: a queue, of which whoever puts something
//! into it recalls the threads, a requesting thread that sleeps, and calls that the module
//! hands back. Inside it cannot die but with the process, so its note names nothing; who
//! counts on it to look at a queue has the supervising thread look, too.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use kumiki_sys::clock::Clock;
use kumiki_wait::Threshold;

use super::hand::{Hand, mortally};
use crate::backend::{Inside, Return, Stay};
use crate::core::Core;
use crate::execute::call;

/// Serves lanes inside the kernel until nothing has come for as long as a thread spins, or
/// there is something in one of these `queues`. Whether it has made any calls.
pub(super) fn serve(
    core: &Arc<Core>,
    inside: &Inside,
    queues: RangeInclusive<usize>,
    hand: &Hand<'_>,
) -> bool {
    let mut served = false;
    // A handler that ends the thread is to run where it leaves nothing half done: outside.
    let signals = hand.signals.map_or(0, |blocked| blocked.lifted(open_signals));
    loop {
        // Before the look: what comes after it recalls.
        let recalls = core.area.recalls();
        if core.area.is_terminated() || queues.clone().any(|queue| core.queues[queue].any()) {
            return served;
        }
        let (share, spin) = (core.share().min(4096), spin(core));
        // It sleeps by its own bell.
        let stay = Stay { share, recalls, spin, idle: spin, signals, any_thread: false };
        // SAFETY: a call is offered only by who vouches for it (`Requester::run_raw`).
        let left = unsafe { inside.serve(&core.area, &stay) };
        match left {
            Return::Idle { served: some } => return served | some,
            // The program's thread may have been called back for its own sake.
            Return::Called if hand.signals.is_some() => return served,
            Return::Called => (),
            Return::Refused => return served,
            Return::Over(lane) => {
                served = true;
                core.sides[lane].made(core.area.line(lane));
            }
            Return::Calls { lane, first, last, made } => {
                served = true;
                make(core, hand, lane, first..last, made);
            }
        }
    }
}

/// Makes calls that the module has claimed and handed back, `made` of whose claim are made.
fn make(
    core: &Arc<Core>,
    hand: &Hand<'_>,
    lane: usize,
    chunk: std::ops::Range<usize>,
    made: usize,
) {
    let (line, claim) = (core.area.line(lane), hand.claim);
    let seen = line.look();
    if seen.is_single() {
        claim.set(lane);
        // SAFETY: as in `serve`; claimed for this thread.
        let ret_val = mortally(hand.signals, || unsafe { call(&line.taken(seen)) });
        line.finish(seen, ret_val);
        claim.clear();
        return core.sides[lane].made(line);
    }
    claim.hold(lane);
    let (mut made, mut chunk) = (made, Some(chunk));
    while let Some(own) = chunk {
        claim.advance(&own, own.start);
        made += own.len();
        let calls = line.calls();
        let begins = |at| claim.advance(&own, at);
        // SAFETY: as above.
        mortally(hand.signals, || unsafe { calls.make(own.clone(), begins) });
        chunk = line.next(made, core.share());
        made = 0;
    }
    claim.clear();
    core.sides[lane].made(line);
}

/// Signals that this thread has not blocked: bit n - 1 is signal n.
fn open_signals() -> u64 {
    let mut blocked = std::mem::MaybeUninit::uninit();
    // SAFETY: writes the present mask alone.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr()) };
    // SAFETY: written above; it fails only for a wrong first argument.
    let blocked: libc::sigset_t = unsafe { blocked.assume_init() };
    let is_open = |signal: &i32| {
        // SAFETY: a set, and a signal's number.
        unsafe { libc::sigismember(&raw const blocked, *signal) == 0 }
    };
    (1..=64).filter(is_open).fold(0, |open, signal| open | 1 << (signal - 1))
}

/// Time to spin, as in user space: as long as two sleeps cost, or until the thread would retire where the policy
/// says never to sleep.
fn spin(core: &Core) -> Duration {
    static SPIN: OnceLock<Duration> = OnceLock::new();
    if core.policy.threshold == Threshold::Infinite {
        return core.retire;
    }
    *SPIN.get_or_init(|| {
        let ticks = kumiki_wait::sleep_cost_ticks().saturating_mul(2);
        Duration::from_nanos(Clock::new().ns(ticks) as u64)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use kumiki_sys::signals::Blocked;

    use super::*;
    use crate::Config;

    #[test]
    fn a_thread_that_is_never_to_sleep_stays_until_it_would_retire() {
        let of = |threshold| {
            let policy = kumiki_wait::Policy { threshold, ..Default::default() };
            let config = Config { policy, retire: Duration::from_secs(77), ..Config::default() };
            spin(&Core::new(&config).unwrap())
        };
        assert_eq!(of(Threshold::Infinite), Duration::from_secs(77));
        assert!(of(Threshold::Adaptive) < Duration::from_secs(1));
    }

    #[test]
    fn signals_that_the_program_has_open_are_known_while_they_are_blocked() {
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let open = open_signals();
        assert_ne!(open & bit(libc::SIGUSR1), 0);
        let blocked = Blocked::new();
        assert_eq!(open_signals() & bit(libc::SIGUSR1), 0);
        assert_eq!(blocked.lifted(open_signals), open);
    }
}
