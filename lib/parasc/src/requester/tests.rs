//! Requesting threads whose processing threads fail them.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kumiki_sys::affinity;

use super::*;
use crate::config::Config;
use crate::core::CpuSeat;
use crate::cost::{Around, survey};
use crate::differences::Differences;
use crate::threads::wake_seat;

/// Nothing for so long is a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `work` in a thread of its own and fails if that hangs.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        work();
        let _ = tell.send(());
    });
    match told.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        // Also where it has panicked.
        _ => thread.join().unwrap(),
    }
}

fn parents(requester: &mut Requester, count: usize) -> Vec<i64> {
    let requests = vec![Request::new(libc::SYS_getppid, []); count];
    let mut results = vec![0; count];
    // SAFETY: getppid takes nothing and changes nothing.
    unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
    results
}

#[test]
fn a_seat_that_no_thread_can_take_leaves_the_calls_to_the_caller() {
    ends(|| {
        let mut core = Core::new(&Config { help: false, ..Config::default() }).unwrap();
        // Linux has no cpu of that number (CONFIG_NR_CPUS is at most 8192).
        core.seats = vec![CpuSeat::new((0, 100_000))];
        let mut requester = Requester::new(Arc::new(core)).unwrap();
        let parent = i64::from(std::os::unix::process::parent_id());
        for count in [1, 2, 100, 600] {
            assert_eq!(parents(&mut requester, count), vec![parent; count]);
        }
        assert!(!requester.core.seats[0].post.is_taken());
    });
}

/// Not even when its requesting thread looks whether it is.
#[test]
fn a_request_that_somebody_is_at_for_long_is_not_given_up() {
    ends(|| {
        let core = Core::new(&Config { help: false, ..Config::default() }).unwrap();
        let mut requester = Requester::new(Arc::new(core)).unwrap();
        let time = libc::timespec { tv_sec: 1, tv_nsec: 300_000_000 };
        let request = Request::new(libc::SYS_nanosleep, [(&raw const time).addr() as u64, 0]);
        let mut result = [-1];
        // SAFETY: the time lives until the call is over.
        unsafe { requester.run_raw(&[request], &mut result) }.unwrap();
        assert_eq!(result, [0]);
    });
}

#[test]
fn seats_that_are_closed_are_not_near() {
    ends(|| {
        let mut core = Core::new(&Config::default()).unwrap();
        core.seats = vec![CpuSeat::new((0, 100_000)), CpuSeat::new((1, 100_001))];
        let mut requester = Requester::new(Arc::new(core)).unwrap();
        assert_eq!(requester.near.len(), 2);
        for _ in 0..20_000 {
            parents(&mut requester, 300);
            if requester.near.is_empty() {
                break;
            }
        }
        assert_eq!(requester.near, []);
        assert!(!requester.means.others);
    });
}

#[test]
fn a_thread_that_has_moved_wakes_nobody_on_its_own_cpu() {
    ends(|| {
        let cpus: Vec<usize> = affinity::current().unwrap().iter().take(2).collect();
        let [before, after] = cpus[..] else { return };
        // Batches that are worth a wake at once.
        let config = Config { slots: 4096, ..Config::default() };
        let core = Arc::new(Core::new(&config).unwrap());
        let bound = affinity::bind(before).unwrap();
        let mut requester = Requester::new(Arc::clone(&core)).unwrap();
        drop(bound);
        let _bound = affinity::bind(after).unwrap();
        // Fewer than after which it looks where it is.
        for _ in 1..run::SETTLE {
            parents(&mut requester, 4000);
        }
        let runs = |cpu| core.seats.iter().any(|seat| seat.cpu == cpu && seat.post.is_taken());
        assert!(runs(before) && !runs(after));
    });
}

#[test]
fn a_batch_that_is_shared_without_a_question_asks_once_nobody_comes() {
    ends(|| {
        let cpus: Vec<usize> = affinity::current().unwrap().iter().take(2).collect();
        let [own, other] = cpus[..] else { return };
        let _bound = affinity::bind(own).unwrap();
        let mut core = Core::new(&Config::default()).unwrap();
        core.seats = vec![CpuSeat::new((0, other))];
        let core = Arc::new(core);
        let mut requester = Requester::new(Arc::clone(&core)).unwrap();
        // The only thread there is sleeps in a call of another lane, and looks awake.
        let lane = 10;
        core.area.open_lane(lane);
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        let mut byte = 0_u8;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&reader) as u64;
        let read = Request::new(libc::SYS_read, [fd, (&raw mut byte).addr() as u64, 1]);
        core.area.line(lane).open_one(&read);
        assert!(wake_seat(&core, 0));
        while core.area.line(lane).look().has_work() || !core.seats[0].is_hot() {
            thread::yield_now();
        }
        let requests = [Request::new(libc::SYS_getppid, []); 10];
        let (key, _) = survey(&requests, Differences::of(&requests), Around::default());
        let parent = i64::from(std::os::unix::process::parent_id());
        requester.costs.repeat(key, 5);
        assert_eq!(parents(&mut requester, 10), [parent; 10]);
        assert_eq!(requester.costs.repeats(key), 0);
        std::io::Write::write_all(&mut &writer, b"!").unwrap();
        while core.area.line(lane).result().is_none() {
            thread::yield_now();
        }
        // It comes again.
        while requester.costs.repeats(key) == 0 {
            requester.costs.repeat(key, 2);
            assert_eq!(parents(&mut requester, 10), [parent; 10]);
        }
        assert_eq!(byte, b'!');
    });
}

#[test]
fn an_engine_that_ends_leaves_the_calls_to_the_caller() {
    ends(|| {
        for round in 0..50 {
            let config = Config { help: round % 5 == 0, ..Config::default() };
            let engine = crate::Engine::new(&config).unwrap();
            let mut requester = engine.requester().unwrap();
            let (tell, told) = mpsc::channel();
            let worker = thread::spawn(move || {
                let parent = i64::from(std::os::unix::process::parent_id());
                for batch in 0..60 {
                    if batch == 20 {
                        tell.send(()).unwrap();
                    }
                    assert_eq!(parents(&mut requester, 500), vec![parent; 500]);
                    (0..batch % 40).for_each(|_| assert_eq!(parents(&mut requester, 1), [parent]));
                }
            });
            told.recv().unwrap();
            assert!(engine.shut_down_timeout(PATIENCE));
            drop(engine);
            worker.join().unwrap();
        }
    });
}

#[test]
fn one_call_handed_over_to_an_engine_that_ends_is_made() {
    ends(|| {
        // Each call handed over waits for a cpu of its own where others want them.
        for _ in 0..30 {
            let config = Config { help: false, ..Config::default() };
            let engine = crate::Engine::new(&config).unwrap();
            let mut requester = engine.requester().unwrap();
            let (tell, told) = mpsc::channel();
            let worker = thread::spawn(move || {
                let parent = i64::from(std::os::unix::process::parent_id());
                for call in 0..20_000 {
                    if call == 50 {
                        tell.send(()).unwrap();
                    }
                    assert_eq!(parents(&mut requester, 1), [parent]);
                }
            });
            told.recv().unwrap();
            assert!(engine.shut_down_timeout(PATIENCE));
            worker.join().unwrap();
        }
    });
}

#[test]
fn what_is_never_shared_passes() {
    let core = Core::new(&Config::default()).unwrap();
    let mut requester = Requester::new(Arc::new(core)).unwrap();
    let requests = vec![Request::new(libc::SYS_munmap, [1, 1]); 10];
    // SAFETY: it has no memory to read or write, and nothing begins at 1.
    unsafe { requester.run_raw(&requests, &mut [0; 10]) }.unwrap();
    assert!(requester.passes.take(&requests), "the address space is never shared");
}

#[test]
fn parts_of_a_long_batch_pass_too() {
    let core = Arc::new(Core::new(&Config::default()).unwrap());
    let most = crate::line::MOST;
    let left_after = |parts| {
        let mut requester = Requester::new(Arc::clone(&core)).unwrap();
        // The address space is never shared.
        let requests = vec![Request::new(libc::SYS_munmap, [1, 1]); parts * most];
        // SAFETY: no mapping begins at 1.
        unsafe { requester.run_raw(&requests, &mut vec![0; parts * most]) }.unwrap();
        (0..).take_while(|_| requester.passes.take(&requests[..most])).count()
    };
    // Asked about once, and not for the parts that follow.
    let given = left_after(1);
    assert!(given > 2);
    assert_eq!([left_after(2), left_after(3)], [given - 1, given - 2]);
}
