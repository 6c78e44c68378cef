//! Threads of the program die at random points, and no request is made twice, or
//! said to be made and is not.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kumiki_parasc::{Config, Engine, Error, Operation, Request};
use kumiki_sys::cpuset::CpuSet;
use rustix::event::{EventfdFlags, eventfd};

use super::deaths::OWNER_DIED;
use crate::processing_thread::{Thread, start};

const LONG: Duration = Duration::from_secs(60);
/// Threads that die in one engine.
const DEATHS: usize = 150;
/// Threads of the program at the same time.
const PROCESSORS: usize = 3;
/// Requests of a group: so many digits of base 4 the counter has.
const GROUP: usize = 31;

/// Requests, each of which adds to a digit of its own: how often it was made.
struct Group {
    counter: OwnedFd,
    words: [u64; GROUP],
    told: [AtomicU32; GROUP],
}

/// What was told of a request: nothing, as of one that was not made.
const MADE: u32 = 1;
const PERHAPS: u32 = 1 << 8;
const WRONG: u32 = 1 << 16;

impl Group {
    fn new() -> Arc<Self> {
        Arc::new(Group {
            counter: eventfd(0, EventfdFlags::NONBLOCK).unwrap(),
            words: std::array::from_fn(|at| 1 << (2 * at)),
            told: [const { AtomicU32::new(0) }; GROUP],
        })
    }

    fn request(&self, at: usize) -> Request {
        let word = &raw const self.words[at] as u64;
        Request::new(libc::SYS_write, [self.counter.as_raw_fd() as u64, word, 8])
    }

    fn tell(&self, at: usize, result: i64) {
        let told = match result {
            8 => MADE,
            OWNER_DIED => PERHAPS,
            _ => WRONG,
        };
        self.told[at].fetch_add(told, AcqRel);
    }

    /// Compares what was told with what was done, once all requests have ended:
    /// then nobody else has the group.
    fn check(mut self: Arc<Self>, counts: &Counts) {
        while Arc::get_mut(&mut self).is_none() {
            thread::yield_now();
        }
        let mut sum = [0; 8];
        match rustix::io::read(&self.counter, &mut sum) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => (),
            Err(error) => panic!("{error}"),
        }
        for (at, told) in self.told.iter().enumerate() {
            let made = u64::from_ne_bytes(sum) >> (2 * at) & 3;
            match told.load(Acquire) {
                0 => assert_eq!(made, 0, "{at}"),
                MADE => assert_eq!(made, 1, "{at}"),
                PERHAPS => assert!(made <= 1, "{at}: {made}"),
                told => panic!("{at}: told {told:#x}, made {made}"),
            }
            counts.told[told.load(Acquire).min(2) as usize].fetch_add(1, Relaxed);
        }
    }
}

/// How many requests were not made, made, or perhaps made.
#[derive(Debug, Default)]
struct Counts {
    told: [AtomicUsize; 3],
}

/// One of a group.
struct Add(Arc<Group>, usize);

// SAFETY: the call reads a word of the group, which the operation holds, and adds to
// its counter.
unsafe impl Operation for Add {
    type Output = ();

    fn request(&mut self) -> Request {
        self.0.request(self.1)
    }

    unsafe fn complete(&mut self, ret_val: i64) {
        self.0.tell(self.1, ret_val);
    }
}

fn batches(engine: &Engine, over: &AtomicBool, counts: &Counts) {
    let mut requester = engine.requester().unwrap();
    while !over.load(Relaxed) {
        let group = Group::new();
        let mut calls: Vec<_> = (0..GROUP).map(|at| Add(Arc::clone(&group), at)).collect();
        requester.run(&mut calls).unwrap();
        drop(calls);
        group.check(counts);
    }
}

/// Submits, and awaits, takes back or drops.
fn singles(engine: &Engine, over: &AtomicBool, counts: &Counts) {
    while !over.load(Relaxed) {
        let group = Group::new();
        let submit = |at| engine.submit(Add(Arc::clone(&group), at));
        let mut pending: Vec<_> = (0..GROUP).map(submit).collect();
        while !pending.is_empty() {
            let one = pending.swap_remove(fastrand::usize(..pending.len()));
            match fastrand::u32(..4) {
                0 => drop(one),
                1 => drop(one.cancel()),
                2 => drop(one.wait().unwrap()),
                _ => drop(one.wait_timeout(LONG).expect("it ends").unwrap()),
            }
        }
        group.check(counts);
    }
}

fn by_hand(engine: &Engine, over: &AtomicBool, counts: &Counts) {
    while !over.load(Relaxed) {
        let group = Group::new();
        let mut tickets = Vec::new();
        for at in 0..GROUP {
            // SAFETY: the group stays until all have been collected.
            match unsafe { engine.place(group.request(at)) } {
                Ok(ticket) => tickets.push((at, ticket)),
                Err(Error::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        while !tickets.is_empty() {
            assert!(engine.wait_timeout(1, LONG) > 0, "{} never end", tickets.len());
            for (at, ticket) in std::mem::take(&mut tickets) {
                match engine.collect(ticket) {
                    Ok(result) => group.tell(at, result),
                    Err(ticket) => tickets.push((at, ticket)),
                }
            }
        }
        group.check(counts);
    }
}

fn nobody_notices_deaths(config: Config) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // Also where this fails: threads are in it then.
        let engine: &Engine = Box::leak(Box::new(Engine::new(&config).unwrap()));
        let (over, counts) = (AtomicBool::new(false), Counts::default());
        thread::scope(|scope| {
            let (over, counts) = (&over, &counts);
            for requests in [batches, singles, singles, by_hand] {
                scope.spawn(move || requests(engine, over, counts));
            }
            let mut threads: Vec<Thread> = (0..PROCESSORS).map(|_| start(engine)).collect();
            for _ in 0..DEATHS {
                thread::sleep(Duration::from_micros(fastrand::u64(..2000)));
                let dies = threads.swap_remove(fastrand::usize(..threads.len()));
                if fastrand::bool() {
                    dies.kill();
                } else {
                    dies.cancel();
                    dies.join();
                }
                threads.push(start(engine));
            }
            over.store(true, Relaxed);
            // Those that are left serve until the last request has ended.
            threads
        })
        .into_iter()
        .for_each(|thread| thread.kill());
        println!("not made, made, perhaps made: {:?}", counts.told);
        assert!(counts.told[..2].iter().all(|count| count.load(Relaxed) > 0));
        assert!(engine.shut_down_timeout(LONG));
        tell.send(()).unwrap();
    });
    told.recv_timeout(4 * LONG).expect("it ends, and all is right");
}

#[test]
fn beside_threads_of_the_engine() {
    nobody_notices_deaths(Config { slots: 16, threads: 2, ..Config::default() });
}

#[test]
fn where_there_are_no_others() {
    let cpus = Some(CpuSet::default());
    let config = Config { cpus, threads: 0, slots: 16, help: false, ..Config::default() };
    nobody_notices_deaths(config);
}
