//! What a foreign hand may leave in the area, and that a processing thread
//! answers it or leaves it alone: one body for the property test and for the
//! fuzzer (`fuzz/`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_calls::{AllowList, NUMBERS, Request, call, refusal_of};
use libc::{EINVAL, EPERM};
use syscalls::Sysno;

use crate::config::Config;
use crate::core::{Core, OPEN_LANES, SLEEPING_LANE};
use crate::open::Look;
use crate::pending::{Bare, End, Task};
use crate::slot::{ERROR, REQUEST, SUCCESS, Slot};
use crate::threads::{processor_has_work, serve_quick_lanes};

/// Calls with any arguments that change nothing, read no memory, and answer
/// the same every time.
const HARMLESS: [Sysno; 6] =
    [Sysno::getpid, Sysno::getppid, Sysno::getuid, Sysno::getegid, Sysno::geteuid, Sysno::getgid];
/// Of the refused ones, which are never made, and of those that the kernel
/// does not have.
const OTHERS: [u16; 6] = [
    Sysno::exit_group as u16,
    Sysno::execve as u16,
    Sysno::rt_sigreturn as u16,
    // Neither harmless nor refused, but not on the list.
    Sysno::close as u16,
    9_999,
    u16::MAX,
];

/// Slots of each lane.
const SLOTS: usize = 8;
/// Lanes that can be leased.
const LANES: usize = 2;
/// A slot that is at work for longer is left behind.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes numbers off the front of `bytes`; 0 when they are used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number<const N: usize>(&mut self) -> u64 {
        let (taken, rest) = self.0.split_at(self.0.len().min(N));
        self.0 = rest;
        taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// A number that is often small.
    fn small(&mut self, below: u64) -> u64 {
        match self.number::<1>() {
            255 => self.number::<8>(),
            byte => u64::from(byte as u8) % below,
        }
    }

    fn request(&mut self) -> Request {
        let sysnum = match self.number::<1>() as usize {
            at if at < 128 => HARMLESS[at % HARMLESS.len()] as u16,
            at => OTHERS[at % OTHERS.len()],
        };
        let args_num = self.small(9) as u16;
        Request { sysnum, args_num, args: [self.number::<8>(); 6], ..Request::default() }
    }
}

/// Fills an area with garbage made of `bytes`, lets a processing thread's loop
/// look at it, and checks every slot.
///
/// # Panics
/// If it does not come to an end, or if a slot holds what it must not.
#[allow(unreachable_pub, reason = "public where it is fuzzed")]
pub fn serve_garbage(bytes: &[u8]) {
    let names = HARMLESS.iter().map(Sysno::name);
    let allow = AllowList::none().allow_each(names).expect("calls that exist").allow_beyond();
    let config = Config {
        requesters: LANES,
        slots: SLOTS,
        threads: 0,
        allow: Some(allow),
        ..Config::default()
    };
    let core = Arc::new(Core::new(&config).expect("an area"));
    let mut bytes = Bytes(bytes);
    let open = bytes.number::<8>();
    core.area.header().fill(open);
    let lanes = 0..OPEN_LANES + LANES;
    let filled: Vec<_> = lanes
        .clone()
        .map(|index| {
            let lane = core.area.lane(index);
            // The first slots of open lanes are those of tasks, the next ones of requests
            // by hand.
            let mut some = || if index < OPEN_LANES { bytes.small(SLOTS as u64 + 1) } else { 0 };
            let (tasks, by_hand) = (some(), some());
            let task = |_| {
                let task = Bare::new(Request::default());
                core.open[index].put(lane, Arc::clone(&task) as _);
                task
            };
            let tasks: Vec<_> = (0..SLOTS.min(tasks as usize)).map(task).collect();
            let place = |_| core.open.get(index)?.place(lane, &Request::default());
            let by_hand = (0..by_hand.min(SLOTS as u64)).map_while(place).collect::<Vec<_>>();
            let words = [0; 2].map(|_| bytes.small(3) << 32 | bytes.small(SLOTS as u64 + 2));
            lane.fill(words);
            let fill = |slot: &Slot| {
                let (status, request) = (bytes.small(7) as u32, bytes.request());
                slot.fill(status, &request);
                (status, request)
            };
            let slots: Vec<(u32, Request)> = lane.slots.iter().map(fill).collect();
            (words, (tasks, by_hand), slots)
        })
        .collect();

    // What a wake-up does.
    (0..OPEN_LANES).for_each(|index| core.open[index].scan(core.area.lane(index)));
    // Every slot of every lane can be claimed once, and each look finds one.
    let mut looks = 0;
    while processor_has_work(&core) || core.open[SLEEPING_LANE].ready.any() {
        serve_quick_lanes(&core);
        looks += 1;
        assert!(looks <= SLOTS * lanes.len(), "there is always more to do");
    }

    for (index, ([published, next], (tasks, by_hand), slots)) in lanes.zip(filled) {
        let lane = core.area.lane(index);
        let claimed = if published >> 32 == next >> 32 { next as u32 } else { 0 };
        let told = |at: usize| at == 0 || (claimed..published as u32).contains(&(at as u32));
        for (at, (before, request)) in slots.into_iter().enumerate() {
            let slot = &lane.slots[at];
            let is_open = index < OPEN_LANES;
            let is_seen = is_open || open & 1 << index != 0 && told(at);
            let mut counted = request;
            counted.args.iter_mut().skip(usize::from(request.args_num)).for_each(|arg| *arg = 0);
            if let Some(task) = tasks.get(at) {
                // Its end is told, and the slot is another's.
                let made = before == REQUEST;
                let expected = if made { answer(&counted) } else { -i64::from(EINVAL) };
                let end = patiently(|| task.base().ended());
                assert_eq!(task.base().slot(), Some(at));
                assert_eq!(end, Some(End::Returned(expected)), "task, {before}: {request:?}");
                assert!(patiently(|| slot.is_free().then_some(())).is_some(), "{before}");
                continue;
            }
            if let Some((_, generation)) = by_hand.iter().find(|(other, _)| *other == at) {
                let expected =
                    if before == REQUEST { answer(&counted) } else { -i64::from(EINVAL) };
                let look = || Some(core.open[index].collect(lane, at, *generation));
                let end = patiently(|| look().filter(|look| *look != Look::Outstanding));
                assert_eq!(end, Some(Look::Result(expected)), "by hand, {before}: {request:?}");
                continue;
            }
            let is_answered = before == REQUEST && is_seen || is_open && before > ERROR;
            let after =
                if is_answered { answered(slot) } else { slot.status().load(Ordering::Acquire) };
            let text = || format!("lane {index}: {before} became {after}: {request:?}");
            assert_eq!(slot.taken(), counted, "{}", text());
            if is_open && before > ERROR {
                assert_eq!((after, slot.result()), (ERROR, Some(-i64::from(EINVAL))), "{}", text());
                continue;
            }
            if !is_answered {
                assert_eq!(after, before, "{}", text());
                continue;
            }
            let expected = answer(&counted);
            let state = if (-4095..0).contains(&expected) { ERROR } else { SUCCESS };
            assert_eq!((after, slot.result()), (state, Some(expected)), "{}", text());
        }
    }
    core.area.header().terminate();
    core.wake_all();
}

/// The status of a slot that is answered, once it is: a thread that the
/// supervising one has summoned may be at it.
fn answered(slot: &Slot) -> u32 {
    let status = || slot.status().load(Ordering::Acquire);
    let answered = |status: &u32| [SUCCESS, ERROR].contains(status);
    patiently(|| Some(status()).filter(answered)).unwrap_or_else(status)
}

/// What there is as soon as there is something.
fn patiently<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    loop {
        let seen = look();
        if seen.is_some() || begin.elapsed() > PATIENCE {
            return seen;
        }
        thread::yield_now();
    }
}

/// What the request must be answered.
fn answer(request: &Request) -> i64 {
    let Request { sysnum, args_num, ref args, .. } = *request;
    let beyond = usize::from(sysnum) >= NUMBERS;
    let allowed = beyond || HARMLESS.iter().any(|call| *call as u16 == sysnum);
    match () {
        () if args_num > 6 => -i64::from(EINVAL),
        () if refusal_of(sysnum, args_num, args).is_some() || !allowed => -i64::from(EPERM),
        // SAFETY: a harmless call, or one that the kernel does not have.
        () => unsafe { call(request) },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn garbage_is_answered_or_left_alone(
            bytes in prop::collection::vec(any::<u8>(), 0..1024),
        ) {
            serve_garbage(&bytes);
        }
    }

    #[test]
    fn control_words_beyond_the_lane() {
        // Lane 2 open, its words say all and more.
        let mut bytes = vec![4, 0, 0, 0, 0, 0, 0, 0];
        bytes.resize(2000, 255);
        serve_garbage(&bytes);
        serve_garbage(&[255; 2000]);
        serve_garbage(&[]);
    }
}
