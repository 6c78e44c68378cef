//! What takes memory each time and what does not: a program of its own, as it
//! counts allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kumiki_parasc::op::Getppid;
use kumiki_parasc::{Config, Engine, Request};
use kumiki_sys::affinity;

/// The system's allocator, and how often the calling thread has asked it.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of `work`, ten times: the fewest of several, as a thread may be
/// started in some.
fn allocations(mut work: impl FnMut()) -> usize {
    let counts = (0..100).map(|_| {
        let before = ASKED.get();
        (0..10).for_each(|_| work());
        ASKED.get() - before
    });
    counts.min().unwrap()
}

static SHORT: [i64; 2] = [0, 1000];

#[test]
fn a_batch_takes_no_memory_but_for_outputs() {
    // On another cpu it would make a new list of the nearest.
    let _bound = affinity::bind(rustix::thread::sched_getcpu()).unwrap();
    let getppid = Request::new(libc::SYS_getppid, []);
    let sleep = Request::new(libc::SYS_nanosleep, [(&raw const SHORT) as u64, 0]);
    for help in [true, false] {
        let engine = Engine::new(&Config { help, ..Config::default() }).unwrap();
        let mut requester = engine.requester().unwrap();
        for requests in [vec![getppid; 1], vec![getppid; 2], vec![getppid; 300], vec![sleep; 20]] {
            let mut results = vec![i64::MIN; requests.len()];
            // SAFETY: getppid takes no argument, and the time stays.
            let run = || unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
            assert_eq!(allocations(run), 0, "{} calls {}", requests.len(), requests[0].sysnum);
        }
        // A list of outputs for each batch.
        let mut operations: Vec<Getppid> = (0..300).map(|_| Getppid::new()).collect();
        assert_eq!(allocations(|| drop(requester.run(&mut operations).unwrap())), 10);
        assert_eq!(allocations(|| _ = requester.call(&mut operations[0]).unwrap()), 0);
        // And a request that is submitted.
        assert!(allocations(|| drop(engine.submit(Getppid::new()).wait())) >= 10);
    }
}
