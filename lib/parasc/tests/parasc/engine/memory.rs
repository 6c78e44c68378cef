//! Memory that runs out under an engine at work: it gets no more threads, nor
//! anything else that has to be mapped. In a process of its own.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kumiki_parasc::{Config, Engine, Operation, Request, Requester};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::child::in_a_child_with;

use super::bad::{address_space, limit};
use super::{PATIENCE, engine, parents, run, until, warm_up};

/// Bytes of a thread's stack: more than the C library keeps of those that have ended.
const STACK: u64 = 64 << 20;
/// What may still be mapped: less than a stack, and more than the first steps of a
/// thread need, that gets the stack of another.
const ROOM: u64 = 1 << 20;
/// What the tests and the engine allocate stays below.
const HEAP: usize = 4 << 20;

/// Requests of a group: so many digits of base 4 the counter has.
const GROUP: usize = 31;
/// What each of them adds: 1 to its digit.
static NUMBERS: [u64; GROUP] = {
    let (mut numbers, mut at) = ([0; GROUP], 0);
    while at < GROUP {
        numbers[at] = 1 << (2 * at);
        at += 1;
    }
    numbers
};

/// Adds to a digit of its own, which tells how often it was made.
struct Add(Arc<OwnedFd>, usize);

fn add(counter: &OwnedFd, at: usize) -> Request {
    let number = &raw const NUMBERS[at] as u64;
    Request::new(libc::SYS_write, [counter.as_raw_fd() as u64, number, 8])
}

// SAFETY: the call reads a number that is always there, and the operation holds
// the descriptor.
unsafe impl Operation for Add {
    type Output = i64;

    fn request(&mut self) -> Request {
        add(&self.0, self.1)
    }

    unsafe fn complete(&mut self, ret_val: i64) -> i64 {
        ret_val
    }
}

/// Makes a group, each request in one of the ways there are; each is made once, or
/// not if it is taken back. Returns how many were.
fn group(engine: &Engine, requester: &mut Requester, executor: &Runtime) -> usize {
    let counter = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let mut sum = NUMBERS.iter().sum::<u64>();
    let of = |at| Add(Arc::clone(&counter), at);

    let mut batch: Vec<Add> = (0..8).map(of).collect();
    assert_eq!(requester.run(&mut batch).unwrap(), [8; 8]);

    let submitted: Vec<_> = (8..24).map(|at| (at, engine.submit(of(at)))).collect();
    let mut taken_back = 0;
    for (at, pending) in submitted {
        let outcome = match (at % 3, pending) {
            (0, pending) => pending.wait(),
            (1, pending) => executor.block_on(pending),
            (_, pending) => match pending.cancel() {
                Ok(Add(_, at)) => {
                    sum -= NUMBERS[at];
                    taken_back += 1;
                    continue;
                }
                Err(pending) => pending.wait(),
            },
        };
        assert_eq!(outcome.unwrap().output, 8);
    }

    // SAFETY: the counter and the numbers are there until all have been collected.
    let tickets = (24..GROUP).map(|at| unsafe { engine.place(add(&counter, at)) }.unwrap());
    let tickets: Vec<_> = tickets.collect();
    assert_eq!(engine.wait_timeout(tickets.len(), PATIENCE), tickets.len());
    tickets.into_iter().for_each(|ticket| assert_eq!(engine.collect(ticket), Ok(8)));

    let mut found = [0; 8];
    rustix::io::read(&*counter, &mut found).unwrap();
    let found = u64::from_ne_bytes(found);
    assert_eq!(found, sum, "{:#x}", found ^ sum);
    GROUP - taken_back
}

/// Has the allocator keep some memory for later.
fn keep_heap() {
    const BLOCK: usize = 64 << 10;
    let blocks: Vec<Vec<u8>> = (0..HEAP / BLOCK).map(|_| vec![1; BLOCK]).collect();
    // It gives back what is free at the end: this one is there.
    Box::leak(Box::new([1u8; 4096]));
    drop(blocks);
}

static SHORT: [i64; 2] = [0, 1000];

fn sleep() -> Request {
    Request::new(libc::SYS_nanosleep, [(&raw const SHORT) as u64, 0])
}

/// A call that sleeps, submitted; whether a thread is there then.
fn has_a_thread(engine: &Engine) -> bool {
    // SAFETY: a time that stays.
    let pending = unsafe { engine.submit_raw(sleep()) };
    let there = engine.threads() > 0;
    assert_eq!(pending.wait().unwrap().output, 0);
    there
}

/// Starts threads until none can be had any more: the C library keeps stacks of
/// those that have ended, the last one's whatever its size.
fn take_all_stacks() -> Vec<JoinHandle<()>> {
    let mut parked = Vec::new();
    let mut refused = 0;
    // One that has retired may still be giving its stack back.
    while refused < 20 {
        match thread::Builder::new().spawn(thread::park) {
            Ok(thread) => {
                parked.push(thread);
                refused = 0;
            }
            Err(_) => refused += 1,
        }
        thread::sleep(Duration::from_millis(1));
    }
    parked
}

fn goes_on(config: Config) {
    let leave = config.retire < PATIENCE;
    let engine = engine(config);
    let mut requester = engine.requester().unwrap();
    let executor = Builder::new_current_thread().build().unwrap();
    warm_up(&engine, &mut requester);
    assert!(has_a_thread(&engine));
    if leave {
        until("all threads have retired", || engine.threads() == 0);
    }
    let before = engine.threads();
    keep_heap();
    let unlimited = getrlimit(Resource::As).maximum.unwrap_or(u64::MAX);
    limit(Resource::As, address_space() + ROOM);
    let parked = take_all_stacks();
    let mut made = 0;
    for round in 0..200 {
        parents(&mut requester, [1, 2, 30, 300][round % 4]);
        assert_eq!(run(&mut requester, &[sleep(); 20]), [0; 20]);
        made += group(&engine, &mut requester, &executor);
        has_a_thread(&engine);
    }
    assert!(made > 0 && engine.threads() == before);
    limit(Resource::As, unlimited);
    for thread in parked {
        thread.thread().unpark();
        thread.join().unwrap();
    }
    until("a thread starts again", || has_a_thread(&engine));
    group(&engine, &mut requester, &executor);
    assert!(engine.shut_down_timeout(PATIENCE));
}

#[test]
fn memory_runs_out_under_an_engine_at_work() {
    let stack = [("RUST_MIN_STACK", STACK.to_string())];
    in_a_child_with(stack, "engine::memory::memory_runs_out_under_an_engine_at_work", || {
        for help in [true, false] {
            // Those that are there stay, or none is left and none comes.
            for retire in [Duration::MAX, Duration::from_millis(1)] {
                goes_on(Config { help, retire, ..Config::default() });
            }
        }
    });
}
