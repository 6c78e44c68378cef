//! The paper's interface: slots, processing threads of the program's own.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::Duration;

use kumiki_parasc::{Config, Engine, Error, Request};
use kumiki_sys::cpuset::CpuSet;

use super::{engine, getppid, ppid};

/// No threads but the program's.
fn bare(slots: usize) -> Engine {
    let cpus = Some(CpuSet::default());
    Engine::new(&Config { cpus, threads: 0, slots, ..Config::default() }).unwrap()
}

#[test]
fn placed_waited_for_collected() {
    let engine = engine();
    for _ in 0..20 {
        // SAFETY: takes no argument.
        let tickets: Vec<_> =
            (0..50).map(|_| unsafe { engine.place(getppid()) }.unwrap()).collect();
        assert_eq!(engine.wait(50), 50);
        for ticket in tickets {
            assert_eq!(engine.collect(ticket), Ok(ppid()));
        }
        assert_eq!(engine.wait(0), 0);
    }
}

#[test]
fn threads_of_the_program_serve_until_the_end() {
    let engine = bare(64);
    thread::scope(|scope| {
        // Nobody is there to serve it yet.
        // SAFETY: takes no argument.
        let ticket = unsafe { engine.place(getppid()) }.unwrap();
        assert_eq!(engine.wait_timeout(1, Duration::from_millis(10)), 0);
        let ticket = engine.collect(ticket).unwrap_err();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| engine.process())).collect();
        assert_eq!(engine.wait(1), 1);
        assert_eq!(engine.collect(ticket), Ok(ppid()));
        for _ in 0..50 {
            // SAFETY: as above.
            let tickets: Vec<_> =
                (0..30).map(|_| unsafe { engine.place(getppid()) }.unwrap()).collect();
            engine.wait_all(tickets.len());
            tickets.into_iter().for_each(|ticket| assert_eq!(engine.collect(ticket), Ok(ppid())));
        }
        assert_eq!(engine.threads(), 1, "only the supervising one");
        assert!(threads.iter().all(|thread| !thread.is_finished()));
        engine.shut_down_timeout(Duration::from_secs(60));
    });
    // Over at once then.
    engine.process();
}

#[test]
fn a_full_lane_says_so() {
    let engine = bare(2);
    // SAFETY: takes no argument.
    let place = || unsafe { engine.place(getppid()) };
    let (first, _second) = (place().unwrap(), place().unwrap());
    let error = place().unwrap_err();
    assert!(matches!(error, Error::Full { slots: 2, most: 4096 }), "{error}");
    engine.shut_down_timeout(Duration::ZERO);
    assert_eq!(engine.collect(first), Ok(-i64::from(libc::ECANCELED)));
    assert!(matches!(place(), Err(Error::ShutDown)));
}

#[test]
fn more_results_than_slots_are_not_waited_for() {
    let engine = bare(2);
    assert_eq!(engine.open_slots(), 2, "all calls share a lane");
    thread::scope(|scope| {
        // SAFETY: takes no argument.
        let tickets = [(); 2].map(|()| unsafe { engine.place(getppid()) }.unwrap());
        scope.spawn(|| engine.process());
        assert_eq!(engine.wait(usize::MAX), 2);
        assert_eq!(tickets.map(|ticket| engine.collect(ticket)), [Ok(ppid()), Ok(ppid())]);
        engine.shut_down_timeout(Duration::ZERO);
    });
}

#[test]
fn what_is_refused_is_not_placed() {
    let engine = bare(2);
    // SAFETY: refused.
    let refused = unsafe { engine.place(Request::new(libc::SYS_exit_group, [0])) };
    assert!(matches!(refused, Err(Error::Refused { .. })));
    let many = Request { args_num: 7, ..getppid() };
    // SAFETY: refused.
    let refused = unsafe { engine.place(many) };
    assert!(matches!(refused, Err(Error::TooManyArguments { count: 7, .. })));
}

#[test]
fn a_wake_up_in_vain_does_no_harm() {
    let engine = engine();
    engine.wake_up();
    // SAFETY: takes no argument.
    let ticket = unsafe { engine.place(getppid()) }.unwrap();
    engine.wake_up();
    engine.wait(1);
    assert_eq!(engine.collect(ticket), Ok(ppid()));
}

#[test]
fn what_is_submitted_needs_none_of_the_slots_that_results_fill() {
    let config = Config { slots: 2, ..Config::default() };
    let engine = Engine::new(&config).unwrap();
    // Calls that sleep have slots of their own, and what a call is taken for may
    // change when it has run: so both until all are full and have run.
    let mut tickets = Vec::new();
    loop {
        let before = tickets.len();
        for call in [getppid, no_sleep] {
            // SAFETY: takes no argument, or none that points.
            tickets.extend(std::iter::from_fn(|| unsafe { engine.place(call()) }.ok()));
        }
        engine.wait_all(tickets.len());
        if tickets.len() == before {
            break;
        }
    }
    // SAFETY: as above.
    let pending = unsafe { engine.submit_raw(getppid()) };
    let ended = pending.wait_timeout(Duration::from_secs(60)).expect("somebody makes it");
    assert_eq!(ended.unwrap().output, ppid());
    let collected = |ticket| engine.collect(ticket).unwrap();
    let no_address = -i64::from(libc::EFAULT);
    assert!(tickets.into_iter().map(collected).all(|it| [ppid(), no_address].contains(&it)));
}

/// Of the kind that sleeps.
fn no_sleep() -> Request {
    Request::new(libc::SYS_nanosleep, [0, 0])
}

trait WaitAll {
    fn wait_all(&self, count: usize);
}

impl WaitAll for Engine {
    fn wait_all(&self, count: usize) {
        assert_eq!(self.wait_timeout(count, Duration::from_secs(60)), count);
    }
}

#[test]
fn a_number_gives_its_result_once_whoever_asks() {
    let engine = engine();
    for _ in 0..500 {
        // SAFETY: takes no argument.
        let number = unsafe { engine.place(getppid()) }.unwrap().into_number();
        let ask = || loop {
            match engine.collect_by_number(number) {
                Ok(None) => thread::yield_now(),
                Ok(Some(result)) => return Some(result),
                Err(error) => {
                    assert!(matches!(error, Error::UnknownTicket { .. }), "{error}");
                    return None;
                }
            }
        };
        let (one, other) = thread::scope(|threads| {
            let other = threads.spawn(ask);
            (ask(), other.join().unwrap())
        });
        assert_eq!(one.xor(other), Some(ppid()), "{one:?} and {other:?}");
        assert!(engine.collect_by_number(number).is_err());
    }
}

/// lseek(2), which returns the offset.
fn seek(file: &impl AsFd, offset: u64) -> Request {
    let fd = file.as_fd().as_raw_fd() as u64;
    Request::new(libc::SYS_lseek, [fd, offset, libc::SEEK_SET as u64])
}

#[test]
fn slots_are_used_again_around_one_that_is_not_collected() {
    const SLOTS: u64 = 8;
    let engine = Engine::new(&Config { slots: SLOTS as usize, ..Config::default() }).unwrap();
    let file = tempfile::tempfile().unwrap();
    // SAFETY: takes no pointer; the file stays.
    let place = |offset| unsafe { engine.place(seek(&file, offset)) }.unwrap();
    let kept = place(7);
    for round in 0..3000 {
        let count = 1 + round % (SLOTS - 1);
        let offsets: Vec<_> = (0..count).map(|at| 1000 * round + at).collect();
        let mut tickets: Vec<_> = offsets.iter().map(|offset| place(*offset)).collect();
        match round % 3 {
            0 => {
                assert_eq!(engine.wait(count as usize + 1) as u64, count + 1)
            }
            1 => engine.wait_all(count as usize + 1),
            _ => engine.wake_up(),
        }
        for offset in offsets {
            let mut ticket = tickets.remove(0);
            let result = loop {
                match engine.collect(ticket) {
                    Ok(result) => break result,
                    Err(back) => ticket = back,
                }
                thread::yield_now();
            };
            assert_eq!(result as u64, offset);
        }
    }
    assert_eq!(engine.collect(kept), Ok(7));
    assert_eq!(engine.wait(0), 0);
}

/// Several place, wait and collect at the same time, beside threads of the program.
#[test]
fn each_thread_collects_its_own() {
    for own in [0, 2] {
        let engine = engine();
        thread::scope(|scope| {
            (0..own).for_each(|_| drop(scope.spawn(|| engine.process())));
            let placing: Vec<_> = (0..3)
                .map(|number| {
                    let engine = &engine;
                    scope.spawn(move || {
                        let file = tempfile::tempfile().unwrap();
                        for round in 0..400_u64 {
                            let offset = |at| (number + 1) << 32 | round << 8 | at;
                            // SAFETY: takes no pointer; the file stays until all are collected.
                            let place = |at| unsafe { engine.place(seek(&file, offset(at))) };
                            let tickets: Vec<_> = (0..20).map(|at| place(at).unwrap()).collect();
                            for (at, mut ticket) in (0..).zip(tickets) {
                                let result = loop {
                                    match engine.collect(ticket) {
                                        Ok(result) => break result,
                                        Err(back) => ticket = back,
                                    }
                                    engine.wait_timeout(usize::MAX, Duration::from_micros(100));
                                };
                                assert_eq!(result as u64, offset(at));
                            }
                        }
                    })
                })
                .collect();
            placing.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(engine.wait(0), 0);
            engine.shut_down_timeout(Duration::from_secs(60));
        });
    }
}

/// Whoever takes a call takes no other one with it.
#[test]
fn one_that_blocks_holds_up_no_other() {
    let engine = engine();
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut bytes = [1_u8; 64];
    let mut read = |file: &dyn AsRawFd, at: usize| {
        let to = (&raw mut bytes[at]).addr() as u64;
        // SAFETY: a byte that stays until all are collected.
        unsafe { engine.place(Request::new(libc::SYS_read, [file.as_raw_fd() as u64, to, 1])) }
    };
    // So that reads are known to be soon over.
    for _ in 0..100 {
        let ticket = read(&zero, 0).unwrap();
        engine.wait_all(1);
        assert_eq!(engine.collect(ticket), Ok(1));
    }
    let blocked = [1, 2, 3].map(|at| read(&reader, at).unwrap());
    let others: Vec<_> = (4..60).map(|at| read(&zero, at).unwrap()).collect();
    engine.wait_all(others.len());
    others.into_iter().for_each(|ticket| assert_eq!(engine.collect(ticket), Ok(1)));
    let blocked = blocked.map(|ticket| engine.collect(ticket).unwrap_err());
    std::io::Write::write_all(&mut &writer, b"abc").unwrap();
    assert_eq!(engine.wait(3), 3);
    blocked.into_iter().for_each(|ticket| assert_eq!(engine.collect(ticket), Ok(1)));
    bytes[1..4].sort_unstable();
    assert_eq!((&bytes[1..4], &bytes[4..60]), (&b"abc"[..], &[0; 56][..]));
}
