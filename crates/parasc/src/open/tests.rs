//! What a foreign hand writes to slots of tasks, and of requests by hand.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use kumiki_sys::cpuset::CpuSet;

use super::*;
use crate::claim::Spot;
use crate::config::Config;
use crate::core::{Core, QUICK_LANE};
use crate::open::serve::{cancel_all, give, reject};
use crate::pending::{Bare, End, Pending};
use crate::slot::{ERROR, FREE, PROCESSING, REQUESTING, SUCCESS};
use crate::threads::serve_quick_lanes;
use crate::ticket;

const SPOILT: End = End::Returned(-(libc::EINVAL as i64));
const GARBAGE: [u32; 7] = [FREE, REQUESTING, PROCESSING, SUCCESS, ERROR, 77, u32::MAX];

/// Without threads.
fn core() -> Arc<Core> {
    let cpus = Some(CpuSet::default());
    let config = Config { cpus, threads: 0, slots: 2, ..Config::default() };
    Arc::new(Core::new(&config).unwrap())
}

fn getpid() -> Request {
    Request::new(libc::SYS_getpid, [])
}

fn pid() -> i64 {
    i64::from(std::process::id())
}

fn put(core: &Core) -> Arc<Bare> {
    let task = Bare::new(getpid());
    core.open[QUICK_LANE].put(core.area.lane(QUICK_LANE), Arc::clone(&task) as _);
    task
}

fn write(core: &Core, at: usize, status: u32) {
    core.area.lane(QUICK_LANE).slots[at].status().store(status, SeqCst);
}

#[test]
fn a_spoilt_task_ends_and_its_slot_goes_on() {
    for status in GARBAGE {
        let core = core();
        // The third waits for a slot.
        let tasks = [(); 3].map(|()| put(&core));
        let at = tasks[0].base().slot().unwrap();
        write(&core, at, status);
        serve_quick_lanes(&core);
        assert_eq!(tasks[0].base().ended(), Some(SPOILT), "{status}");
        serve_quick_lanes(&core);
        for task in &tasks[1..] {
            assert_eq!(task.base().ended(), Some(End::Returned(pid())), "{status}");
        }
        // Both can be had.
        let tasks = [put(&core), put(&core)];
        serve_quick_lanes(&core);
        assert!(tasks.iter().all(|task| task.base().ended() == Some(End::Returned(pid()))));
    }
}

/// Places a request by hand, and collects what has become of it.
fn place(core: &Core) -> (usize, impl Fn() -> Look) {
    let (open, lane) = (&core.open[QUICK_LANE], core.area.lane(QUICK_LANE));
    let (at, generation) = open.place(lane, &getpid()).unwrap();
    (at, move || open.collect(lane, at, generation))
}

const EINVAL: Look = Look::Result(-(libc::EINVAL as i64));

#[test]
fn a_spoilt_request_by_hand_is_answered() {
    for status in GARBAGE {
        let core = core();
        let (at, collect) = place(&core);
        write(&core, at, status);
        assert_eq!(collect(), Look::Outstanding, "{status}");
        serve_quick_lanes(&core);
        assert_eq!((collect(), collect()), (EINVAL, Look::Unknown), "{status}");
    }
}

#[test]
fn what_a_thread_has_taken_by_hand_is_answered_whatever_the_status() {
    for status in GARBAGE {
        let core = core();
        let (open, lane) = (&core.open[QUICK_LANE], core.area.lane(QUICK_LANE));
        let (at, collect) = place(&core);
        assert_eq!(open.take(lane, at), Some(Taken::ByHand));
        write(&core, at, status);
        reject(&core, QUICK_LANE, at);
        assert_eq!(open.place(lane, &getpid()).map(|(other, _)| other == at), Some(false));
        assert_eq!(collect(), Look::Outstanding, "{status}");
        give(&core, QUICK_LANE, at, Taken::ByHand, 7, false);
        assert_eq!(collect(), Look::Result(7), "{status}");
    }
}

#[test]
fn a_spoilt_result_is_an_error() {
    for status in [FREE, REQUESTING, crate::slot::REQUEST, PROCESSING, 77] {
        let core = core();
        let (at, collect) = place(&core);
        serve_quick_lanes(&core);
        write(&core, at, status);
        serve_quick_lanes(&core);
        assert_eq!(collect(), EINVAL, "{status}");
    }
}

/// Without a thread that looks at it.
#[test]
fn who_collects_or_waits_finds_what_is_spoilt_by_hand() {
    for (status, waits) in GARBAGE.into_iter().flat_map(|status| [(status, false), (status, true)])
    {
        let core = core();
        let caller = core.callers.enter();
        // SAFETY: takes no argument.
        let ticket = unsafe { ticket::place(&core, getpid()) }.unwrap();
        let placed = core.area.lane(QUICK_LANE).slots.iter().position(|slot| !slot.is_free());
        write(&core, placed.unwrap(), status);
        let ticket = if waits {
            assert_eq!(ticket::wait(&core, 1, Some(Duration::from_secs(60))), 1, "{status}");
            ticket
        } else {
            // Which also looks.
            ticket::collect(&core, ticket).unwrap_err()
        };
        assert_eq!(ticket::collect(&core, ticket), Ok(-i64::from(libc::EINVAL)), "{status}");
        core.callers.leave(&caller);
    }
}

#[test]
fn a_slot_that_is_said_to_be_free_is_not_given_away() {
    let core = core();
    let (open, lane) = (&core.open[QUICK_LANE], core.area.lane(QUICK_LANE));
    let task = put(&core);
    let at = task.base().slot().unwrap();
    for begun in [false, true] {
        if begun {
            assert_eq!(open.take(lane, at), Some(Taken::Task));
        }
        write(&core, at, FREE);
        let placed = [(); 3].map(|()| open.place(lane, &getpid()));
        assert_eq!(placed.iter().flatten().count(), usize::from(!begun));
        assert!(placed.iter().flatten().all(|(other, _)| *other != at));
        // Good again.
        write(&core, at, crate::slot::REQUEST);
    }
    assert_eq!(open.take(lane, at), None, "made twice");
    give(&core, QUICK_LANE, at, Taken::Task, 7, false);
    assert_eq!(task.base().ended(), Some(End::Returned(7)));
    assert!(open.place(lane, &getpid()).is_some());
}

#[test]
fn what_a_thread_is_at_is_not_rejected() {
    for status in GARBAGE {
        let core = core();
        let (open, lane) = (&core.open[QUICK_LANE], core.area.lane(QUICK_LANE));
        let task = put(&core);
        let at = task.base().slot().unwrap();
        // As a thread about to begin.
        core.watch.claim().set(Spot { lane: QUICK_LANE, at });
        assert!(lane.slots[at].take());
        reject(&core, QUICK_LANE, at);
        assert_eq!(open.inherit(at), Some(Taken::Task));
        write(&core, at, status);
        reject(&core, QUICK_LANE, at);
        cancel_all(&core);
        assert_eq!(task.base().ended(), None, "{status}");
        give(&core, QUICK_LANE, at, Taken::Task, 7, false);
        assert_eq!(task.base().ended(), Some(End::Returned(7)));
        assert!(lane.slots[at].is_free());
    }
}

#[test]
fn one_rejected_before_its_thread_has_begun_it_is_not_made() {
    let core = core();
    let (open, lane) = (&core.open[QUICK_LANE], core.area.lane(QUICK_LANE));
    let task = put(&core);
    let at = task.base().slot().unwrap();
    assert!(lane.slots[at].take());
    write(&core, at, 77);
    reject(&core, QUICK_LANE, at);
    assert_eq!(task.base().ended(), Some(SPOILT));
    assert_eq!(open.inherit(at), None, "a thread would be at buffers that have been given back");
}

#[test]
fn who_waits_finds_what_is_spoilt() {
    for status in GARBAGE {
        let core = core();
        // A thread that is counted on, and does not come.
        let caller = core.callers.enter();
        // SAFETY: getpid takes nothing and changes nothing.
        let getpid = unsafe { crate::op::Raw::of(getpid()) };
        let pending = Pending::submit(&core, getpid);
        let spoilt = core.area.lane(QUICK_LANE).slots.iter().position(|slot| !slot.is_free());
        write(&core, spoilt.unwrap(), status);
        let ended = pending.wait_timeout(Duration::from_secs(60)).expect("it ends");
        assert_eq!(ended.unwrap().output, -i64::from(libc::EINVAL), "{status}");
        core.callers.leave(&caller);
    }
}

#[test]
fn the_end_of_the_engine_finds_it_too() {
    for status in GARBAGE {
        let core = core();
        let task = put(&core);
        write(&core, task.base().slot().unwrap(), status);
        core.area.header().terminate();
        cancel_all(&core);
        assert_eq!(task.base().ended(), Some(End::Cancelled), "{status}");
    }
}
