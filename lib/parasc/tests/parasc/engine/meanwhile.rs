//! Work that the caller does beside a batch.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kumiki_parasc::op::{Close, Errno, Read};
use kumiki_parasc::{AllowList, Config, Engine, Error, Operation, Request};

use super::ends;

/// None, one, few, a lane's worth and more.
const COUNTS: [usize; 6] = [0, 1, 2, 40, 512, 1300];
/// Enough for the ways to change.
const ROUNDS: usize = 300;

/// Reads that have found nothing yet.
fn reads(zero: &File, count: usize) -> Vec<Read<&File, [u8; 8]>> {
    (0..count).map(|_| Read::new(zero, [1; 8])).collect()
}

#[test]
fn it_is_done_once_and_every_call_too() {
    ends(|| {
        let zero = File::open("/dev/zero").unwrap();
        for help in [true, false] {
            let engine = Engine::new(&Config { help, ..Config::default() }).unwrap();
            let mut requester = engine.requester().unwrap();
            for round in 0..ROUNDS {
                let count = COUNTS[round % COUNTS.len()];
                let (mut operations, mut done) = (reads(&zero, count), 0);
                let (outputs, seen) = requester
                    .run_while(&mut operations, || {
                        done += 1;
                        done
                    })
                    .unwrap();
                assert_eq!((done, seen, outputs.len()), (1, 1, count));
                assert!(outputs.iter().all(|output| *output == Ok(8)));
                assert!(operations.iter().all(|operation| operation.filled() == [0; 8]));
            }
        }
    });
}

#[test]
fn a_panic_comes_after_the_calls() {
    ends(|| {
        let zero = File::open("/dev/zero").unwrap();
        let engine = Engine::new(&Config::default()).unwrap();
        let mut requester = engine.requester().unwrap();
        for round in 0..ROUNDS {
            let mut operations = reads(&zero, COUNTS[round % COUNTS.len()]);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                requester.run_while(&mut operations, || std::panic::resume_unwind(Box::new(7)))
            }));
            let reason = panicked.map(drop).unwrap_err();
            assert_eq!(reason.downcast_ref::<i32>(), Some(&7));
            // None is still being made: what they would write to is used again.
            operations.into_iter().for_each(|operation| {
                assert_eq!(operation.into_parts().1, [0; 8]);
            });
            // And the requesting thread is as good as before.
            let outputs = requester.run(&mut reads(&zero, 50)).unwrap();
            assert!(outputs.iter().all(|output| *output == Ok(8)));
        }
    });
}

/// A close whose completion may panic.
struct Fragile {
    close: Close,
    breaks: bool,
}

// SAFETY: what `Close` vouches for.
unsafe impl Operation for Fragile {
    type Output = Result<(), Errno>;

    fn request(&mut self) -> Request {
        self.close.request()
    }

    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the caller vouches for it.
        let output = unsafe { self.close.complete(ret_val) };
        if self.breaks {
            std::panic::resume_unwind(Box::new(7));
        }
        output
    }
}

/// A descriptor that is closed and still somebody's would be closed twice.
#[test]
fn after_a_panic_no_close_has_a_descriptor_that_was_closed() {
    let close = |breaks| Fragile { close: Close::new(File::open("/dev/null").unwrap()), breaks };
    ends(move || {
        for help in [true, false] {
            let engine = Engine::new(&Config { help, ..Config::default() }).unwrap();
            let mut requester = engine.requester().unwrap();
            for count in [1, 2, 40] {
                for broken in [0, count - 1, count] {
                    let mut closes: Vec<_> = (0..count).map(|at| close(at == broken)).collect();
                    let panicked = catch_unwind(AssertUnwindSafe(|| {
                        requester.run_while(&mut closes, || {
                            if broken == count {
                                std::panic::resume_unwind(Box::new(7));
                            }
                        })
                    }));
                    assert!(panicked.is_err());
                    let none = Request::new(libc::SYS_close, [u64::MAX]);
                    assert!(closes.iter_mut().all(|close| close.request() == none));
                }
            }
        }
    });
}

#[test]
fn it_is_not_done_if_the_batch_is_not_allowed() {
    let allow = Some(AllowList::none().allow("getppid").unwrap());
    let engine = Engine::new(&Config { allow, ..Config::default() }).unwrap();
    let mut requester = engine.requester().unwrap();
    let zero = File::open("/dev/zero").unwrap();
    let mut done = false;
    let error = requester.run_while(&mut reads(&zero, 9), || done = true).unwrap_err();
    assert!(matches!(error, Error::NotAllowed { index: 0, .. }), "{error}");
    assert!(!done);
}
