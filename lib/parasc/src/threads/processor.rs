//! What a processing thread does: looks for requests, makes the calls, sleeps
//! when none come.

use std::sync::Arc;

use kumiki_sys::affinity;
use kumiki_wait::{Policy, Threshold, Waiter};

use super::hand::{Hand, mortally, see_to_others};
use super::placed::make_placed;
use super::{inside, queue, seat, spinning, wake_seat};
use crate::area::PLACED;
use crate::core::{Core, CpuSeat, Unwinding};
use crate::execute::call;
use crate::line::OfferWord;
use crate::primitive::after;
use crate::queue::QUICK;

/// Looks for a lane's next request before it waits for any: some 2 µs.
const LOOKS: u32 = 400;

/// Event that ends a processing thread's wait.
enum Event {
    Terminated,
    /// Somebody has called. What was to be done then may be done already: a small
    /// batch is over before a thread that slept is on its cpu.
    Called,
    /// A call in this lane's line.
    Offer(usize),
    /// The call has been offered, and is made.
    Served(usize),
    /// A request in the queue.
    Queued,
}

/// The thread of a seat, until there was nothing to do for long.
pub(super) fn thread(core: &Arc<Core>, seat: &CpuSeat) {
    let _left = Unwinding(|| seat::clear(core, seat));
    let Ok(_bound) = affinity::bind(seat.cpu) else {
        return seat::abandon(core, seat, true);
    };
    // Inside the kernel it has looked for as long as it spins.
    let asleep = Policy { threshold: Threshold::Ticks(0), ..core.policy };
    let policy = if core.inside.is_some() { asleep } else { spinning(core.policy) };
    let Ok(mut waiter) = Waiter::new(&policy) else {
        return seat::abandon(core, seat, true);
    };
    let mut hand = Hand::new(&seat.thread.claim, None);
    loop {
        serve(core, seat, &mut waiter, &mut hand);
        let ends = || core.area.is_terminated();
        if !seat.post.retire(ends, || work(core, seat).is_some()) {
            return;
        }
    }
}

/// Serves requests for calls that are soon over, until the termination flag is
/// set or there was nothing to do for long.
fn serve(core: &Arc<Core>, seat: &CpuSeat, waiter: &mut Waiter, hand: &mut Hand<'_>) {
    let area = &core.area;
    let word = area.line(0).word();
    // Moved on when it has come, not after each request: reading the kernel's
    // clock takes longer than finding the next one.
    let mut retire = after(core.retire);
    let mut worked = false;
    loop {
        if let Some(device) = &core.inside {
            worked |= inside::serve(core, device, QUICK..=QUICK, hand);
        }
        let ready = || {
            let called = seat.bell.looks();
            if area.is_terminated() {
                return Some(Event::Terminated);
            }
            let event = work(core, seat);
            // At once, and then what there is to do at the end of a wait: unless others
            // take this thread for one that sleeps, and comes when it is called.
            match event {
                Some(Event::Offer(lane)) if !seat.bell.is_asleep() => {
                    serve_soon(core, seat, lane, hand);
                    return Some(Event::Served(lane));
                }
                _ => (),
            }
            event.or_else(|| called.then_some(Event::Called))
        };
        let served = match waiter.wait_deadline(&seat.bell, word, retire, ready) {
            Ok(Event::Offer(lane)) => {
                serve_lane(core, lane, hand);
                lane
            }
            Ok(Event::Served(lane)) => lane,
            Ok(Event::Queued) => QUICK,
            Ok(Event::Terminated) => return,
            // Spins anew, for the next batch: it is why there was a call.
            Ok(Event::Called) => continue,
            Err(_) if !worked => return,
            Err(_) => {
                worked = false;
                retire = after(core.retire);
                continue;
            }
        };
        // After each lane the others: its requesting thread may always have more.
        serve_lanes_after(core, seat, served, hand);
        queue::serve(core, QUICK, hand);
        worked = true;
    }
}

/// The first request for a call that is soon over. A loop as plain as this is short
/// enough for the compiler to put it where it is waited.
#[inline(always)]
fn work(core: &Core, seat: &CpuSeat) -> Option<Event> {
    work_in(core, seat, quick_lanes(core))
}

/// The first such request in these lanes, and the queue.
#[inline(always)]
fn work_in(core: &Core, seat: &CpuSeat, mut lanes: u64) -> Option<Event> {
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        if core.area.line(lane).is_for(seat.number) {
            return Some(Event::Offer(lane));
        }
    }
    core.queues[QUICK].any().then_some(Event::Queued)
}

/// Lanes with calls that are soon over.
#[inline(always)]
fn quick_lanes(core: &Core) -> u64 {
    core.area.open_lanes() & !core.pool.lanes()
}

/// The bits that are set, as numbers.
#[inline(always)]
pub(super) fn bits(word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// Makes what is offered in a lane, often a single call, and what comes there just after it,
/// as long as nobody else has a request.
///
/// From one to the next there is no return from a function. A kernel that returns by
/// Safe RET (Speculative Return Stack Overflow, AMD Zen 1 to 4) leaves calls of its own on
/// the processor's return stack, and after a return of the program's a system call took 25
/// to 50 ns longer there, a fifth.
#[inline(never)]
fn serve_soon(core: &Arc<Core>, seat: &CpuSeat, lane: usize, hand: &Hand<'_>) {
    let line = core.area.line(lane);
    loop {
        make_offered(core, lane, hand);
        let mut looks = 0u32;
        // Own ones last: they are on their way meanwhile.
        loop {
            let lanes = quick_lanes(core);
            let others = lanes & !(1 << lane);
            // It may be the pool's by now.
            let is_own = others != lanes;
            if !is_own || work_in(core, seat, others).is_some() || core.area.is_terminated() {
                return;
            }
            if line.is_for(seat.number) {
                break;
            }
            if looks == LOOKS {
                return;
            }
            looks += 1;
        }
    }
}

/// Serves the lanes after `lane` that have anything, each once: those before it come
/// first when the next look is taken.
#[inline(always)]
fn serve_lanes_after(core: &Arc<Core>, seat: &CpuSeat, lane: usize, hand: &Hand<'_>) {
    for lane in bits(quick_lanes(core) & (!0 << lane) << 1) {
        if core.area.line(lane).is_for(seat.number) {
            serve_lane(core, lane, hand);
        }
    }
}

/// Makes what a requesting thread offers.
#[inline(never)]
pub(super) fn serve_lane(core: &Arc<Core>, lane: usize, hand: &Hand<'_>) {
    make_offered(core, lane, hand);
}

/// Makes what a requesting thread offers: a single call, or calls of its batch as long as
/// there are some.
#[inline(always)]
fn make_offered(core: &Arc<Core>, lane: usize, hand: &Hand<'_>) {
    let seen = core.area.line(lane).look();
    if !seen.has_work() {
        return;
    }
    if seen.is_single() {
        make_one(core, lane, seen, hand);
    } else if lane == PLACED {
        make_placed(core, hand);
    } else {
        make_batch(core, lane, hand);
    }
}

/// Makes calls of a batch, as long as there are some.
#[inline(always)]
fn make_batch(core: &Arc<Core>, lane: usize, hand: &Hand<'_>) {
    let (line, claim) = (core.area.line(lane), hand.claim);
    let share = core.share();
    let mut made = 0;
    claim.hold(lane);
    while let Some(chunk) = line.next(made, share) {
        claim.advance(&chunk, chunk.start);
        kumiki_sys::event!(lane, first = chunk.start, count = chunk.len(), "claim calls");
        see_to_others(core, hand);
        made = chunk.len();
        let calls = line.calls();
        let begins = |at| claim.advance(&chunk, at);
        // SAFETY: claimed just now, and the batch's requesting thread, which has
        // vouched for its calls, waits until they are made.
        mortally(hand.signals, || unsafe { calls.make(chunk.clone(), begins) });
    }
    claim.clear();
    if made > 0 {
        core.sides[lane].made(line);
    }
    if let Some((cpu, place)) = core.sides[lane].called() {
        let _ = core.near(cpu).get(place).map(|seat| wake_seat(core, *seat));
    }
}

/// Makes the single call of a lane that `seen` shows, if nobody else does.
#[inline(always)]
fn make_one(core: &Arc<Core>, lane: usize, seen: OfferWord, hand: &Hand<'_>) {
    let line = core.area.line(lane);
    hand.claim.set(lane);
    let taken = line.take(seen);
    if taken {
        kumiki_sys::event!(lane, "claim a call");
        see_to_others(core, hand);
        // SAFETY: a call is offered only by who vouches for it (`Requester::run_raw`).
        let ret_val = mortally(hand.signals, || unsafe { call(&line.taken(seen)) });
        line.finish(seen, ret_val);
    }
    hand.claim.clear();
    if taken {
        core.sides[lane].made(line);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use kumiki_wait::{Policy, Threshold};

    use super::*;
    use crate::Config;
    use crate::claim::Claim;
    use crate::line::Calls;
    use kumiki_calls::Request;

    /// Nothing for so long is a hang.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_thread_that_sleeps_in_an_offered_call_is_at_something_and_others_are_seen_to() {
        let core = Arc::new(Core::new(&Config::default()).unwrap());
        let lane = 0;
        core.area.open_lane(lane);
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        let mut byte = 0_u8;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&reader) as u64;
        let request = Request::new(libc::SYS_read, [fd, (&raw mut byte).addr() as u64, 1]);
        let mut result = 0;
        let calls = Calls { requests: &raw const request, results: &raw mut result };
        // Somebody has just placed a request, as far as anybody can see: it was taken back.
        let placed = Arc::new(crate::task::Base::of(request));
        assert!(placed.claim());
        core.queues[QUICK].push(placed);
        core.area.line(lane).open(calls, 1, 1);
        let start = Instant::now();
        let comes = |what: &dyn Fn() -> bool| {
            while !what() && start.elapsed() < PATIENCE {
                thread::yield_now();
            }
            what()
        };
        let seen = thread::scope(|threads| {
            threads.spawn(|| {
                let (seat, policy) = (&core.seats[0], Policy::default());
                let mut waiter = Waiter::new(&policy).unwrap();
                serve(&core, seat, &mut waiter, &mut Hand::new(&seat.thread.claim, None));
            });
            let offer = core.area.line(lane);
            let claim = &core.seats[0].thread.claim;
            let asleep = comes(&|| offer.claimed() == 1 && core.watch.is_alerted());
            let noted = claim.is_set() && offer.over().is_none();
            std::io::Write::write_all(&mut &writer, b"!").unwrap();
            let over = comes(&|| offer.over() == Some(1) && !claim.is_set());
            core.area.terminate();
            core.wake_all();
            (asleep, noted, over)
        });
        assert_eq!((seen, result, byte), ((true, true, true), 1, b'!'));
    }

    #[test]
    fn after_one_lane_all_that_follow_are_served_whatever_comes_in_it_meanwhile() {
        let core = Arc::new(Core::new(&Config::default()).unwrap());
        let request = Request::new(libc::SYS_getpid, []);
        let lanes = [0, 1, 3];
        let waits = |lane: usize| core.area.line(lane).look().has_work();
        for lane in lanes {
            core.area.open_lane(lane);
            core.area.line(lane).open_one(&request);
        }
        let offered = 2;
        core.area.open_lane(offered);
        let mut result = 0;
        let calls = Calls { requests: &raw const request, results: &raw mut result };
        core.area.line(offered).open(calls, 1, 1);
        let claim = Claim::default();
        let hand = Hand::new(&claim, None);
        serve_lanes_after(&core, &core.seats[0], 0, &hand);
        assert_eq!(lanes.map(waits), [true, false, false]);
        assert_eq!(core.area.line(offered).over(), Some(1));
        // There is none after the last one there can be.
        serve_lanes_after(&core, &core.seats[0], 63, &hand);
        assert!(waits(0) && !claim.is_set());
    }

    /// Others would call it, and rely on that it comes.
    #[test]
    fn a_thread_at_a_call_does_not_look_asleep() {
        let core = Arc::new(Core::new(&Config::default()).unwrap());
        let lane = 0;
        core.area.open_lane(lane);
        let (seat, line) = (&core.seats[0], core.area.line(lane));
        let at_once = Policy { threshold: Threshold::Ticks(0), ..Policy::default() };
        let mut waiter = Waiter::new(&at_once).unwrap();
        let looked_asleep = thread::scope(|threads| {
            threads.spawn(|| {
                serve(&core, seat, &mut waiter, &mut Hand::new(&seat.thread.claim, None))
            });
            let mut looked_asleep = 0;
            for round in 0..400 {
                while !seat.bell.is_asleep() {
                    thread::yield_now();
                }
                // In time for the looks before a sleep, or else called from it.
                let time = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
                let request =
                    Request::new(libc::SYS_nanosleep, [(&raw const time).addr() as u64, 0]);
                let mut result = -1;
                let offered = round % 2 == 0;
                if offered {
                    let calls = Calls { requests: &raw const request, results: &raw mut result };
                    line.open(calls, 1, 1);
                } else {
                    line.open_one(&request);
                }
                let begun = || line.claimed() > 0;
                let over = || line.over().is_some();
                let start = Instant::now();
                while !begun() {
                    if start.elapsed() > Duration::from_micros(100) {
                        seat.bell.ring();
                    }
                }
                let asleep = seat.bell.is_asleep();
                looked_asleep += usize::from(asleep && !over());
                while !over() {
                    thread::yield_now();
                }
            }
            core.area.terminate();
            core.wake_all();
            looked_asleep
        });
        assert_eq!(looked_asleep, 0);
    }

    #[test]
    fn a_call_ends_a_sleep_even_if_there_is_nothing_left_to_do() {
        const CALLS: u64 = 3;
        let core = Arc::new(Core::new(&Config::default()).unwrap());
        let at_once = Policy { threshold: Threshold::Ticks(0), ..Policy::default() };
        let mut waiter = Waiter::new(&at_once).unwrap();
        let slept = thread::scope(|threads| {
            let thread = threads.spawn(|| {
                let seat = &core.seats[0];
                serve(&core, seat, &mut waiter, &mut Hand::new(&seat.thread.claim, None));
                waiter.counts().slept
            });
            let seat = &core.seats[0];
            for _ in 0..CALLS {
                while !seat.bell.is_asleep() {
                    thread::yield_now();
                }
                seat.bell.call();
            }
            while !seat.bell.is_asleep() {
                thread::yield_now();
            }
            core.area.terminate();
            seat.bell.ring();
            thread.join().unwrap()
        });
        assert_eq!(slept, CALLS + 1);
    }
}
