//! A table that the thread on the other cpu owns: asked by a call, or taken by a lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use kumiki_experiments::resource::shared::{Serial, SharedKind};
use kumiki_resource::{Answer, Handle, Interface};

use crate::child::turns;
use crate::pair::Pair;
use crate::stopwatch::{Amount, Stopwatch};

use super::request::Request;
use super::table::{ENTRIES, Table};

/// A way to have an entry of the table counted up.
pub(crate) trait Calls {
    /// Once, and its result.
    fn call(&mut self, key: u64) -> u64;

    /// Calls for each key, up to `in_flight` at a time; the sum of the results.
    fn flow(&mut self, in_flight: usize, keys: impl Iterator<Item = u64>) -> u64;

    /// For each of so many keys, which are known beforehand; the sum of the results. One after
    /// the other, as many under way as there may be, unless they can travel together.
    fn each(&mut self, count: usize, keys: impl Iterator<Item = u64>) -> u64 {
        self.flow(count.min(MOST_UNDER_WAY), keys)
    }
}

/// Calls that any way has room for.
const MOST_UNDER_WAY: usize = 32;
/// Keys of a sample in batches, at least.
const EACH: u64 = 512;

/// Calls of a sample, of each that is under way at the same time.
const CALLS: u64 = 16;

const FLOW: Amount = Amount {
    warm: 4,
    warm_span: Duration::from_micros(500),
    least: 5,
    most: 100,
    span: Duration::from_millis(3),
};

/// Calls of a sample beside busy processes, of which the scheduler's slices are milliseconds.
const BUSY_CALLS: u64 = 20_000;

const BUSY: Amount = Amount {
    warm: 1,
    warm_span: Duration::from_millis(1),
    least: 3,
    most: 20,
    span: Duration::from_millis(150),
};

/// Serves as the way `calls`.
pub(crate) fn serve(mut calls: impl Calls) -> Result<()> {
    let watch = Stopwatch::new();
    let before = calls.call(0);
    let after = calls.flow(4, std::iter::repeat_n(0, 8));
    // Exactly, where nobody else counts.
    anyhow::ensure!(after >= 8 * before + 36, "a call was lost: {after} after {before}");
    let mut key = 0;
    turns(|request| {
        let in_flight = match request {
            Request::CoreCall { in_flight } => in_flight,
            Request::CoreEach { batch } => {
                let batches = EACH / batch;
                return Ok(Some(watch.means(FLOW, |watch| {
                    let start = watch.clock().start();
                    for _ in 0..batches {
                        calls.each(batch as usize, (0..batch).map(|key| key % ENTRIES));
                    }
                    watch.ns(start, watch.clock().end()) / (batches * batch) as f64
                })));
            }
            Request::CallBusy { .. } => {
                // Of a mean: most calls are as quick as ever, and the others are all that counts.
                return Ok(Some(watch.means(BUSY, |watch| {
                    let start = watch.clock().start();
                    for _ in 0..BUSY_CALLS {
                        key = (key + 1) % ENTRIES;
                        calls.call(key);
                    }
                    watch.ns(start, watch.clock().end()) / BUSY_CALLS as f64
                })));
            }
            _ => return Ok(None),
        };
        if in_flight == 1 {
            return Ok(Some(watch.each(Amount::hot(200), || {
                key = (key + 1) % ENTRIES;
                calls.call(key);
            })));
        }
        let count = CALLS * in_flight;
        Ok(Some(watch.means(FLOW, |watch| {
            let start = watch.clock().start();
            calls.flow(in_flight as usize, (0..count).map(|key| key % ENTRIES));
            watch.ns(start, watch.clock().end()) / count as f64
        })))
    })
}

/// Through interface control, to the manager of the other cpu.
pub(crate) struct Kumiki {
    interface: Interface,
    table: Handle<Table>,
    under_way: VecDeque<Answer<u64>>,
}

impl Kumiki {
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        // A manager's cpu must be one that this thread may use.
        pair.bind_both()?;
        let interface = Interface::builder().kind::<Table>().cores([pair.helper]).per_core()?;
        pair.bind_main()?;
        let table = interface.create::<Table>(interface.places()[0], Some("counts"), ())?;
        Ok(Kumiki { interface, table, under_way: VecDeque::with_capacity(32) })
    }
}

const SERVED: &str = "the manager serves";

impl Calls for Kumiki {
    #[inline(always)]
    fn call(&mut self, key: u64) -> u64 {
        self.interface.with(&self.table, move |table, ()| table.count(key)).expect(SERVED)
    }

    #[inline(always)]
    fn flow(&mut self, in_flight: usize, keys: impl Iterator<Item = u64>) -> u64 {
        let mut sum = 0;
        for key in keys {
            if self.under_way.len() == in_flight {
                let answer = self.under_way.pop_front().expect("some are under way");
                sum += answer.wait().expect(SERVED);
            }
            let answer = self.interface.start(&self.table, move |table, ()| table.count(key));
            self.under_way.push_back(answer.expect(SERVED));
        }
        sum + self.under_way.drain(..).map(|answer| answer.wait().expect(SERVED)).sum::<u64>()
    }

    fn each(&mut self, _: usize, keys: impl Iterator<Item = u64>) -> u64 {
        let all = keys.map(|key| (&self.table, key));
        let counts = self.interface.each(all, |table, (), key| table.count(key));
        counts.into_iter().map(|count| count.expect(SERVED)).sum()
    }
}

/// The paper's shared type: whoever wants something takes the resource's lock.
pub(crate) struct Shared {
    all: Arc<SharedKind<Table>>,
    table: Serial,
}

impl Shared {
    /// The other cpu's thread uses the table all the time, as its owner would.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let all = Arc::new(SharedKind::<Table>::new()?);
        let table = all.create(Some("counts"), ())?;
        let its = Arc::clone(&all);
        let mut key = 0;
        let work = move || loop {
            key = (key + 1) % ENTRIES;
            its.with(table, |table, ()| table.count(key)).expect("it is there");
        };
        pair.on_helper(|| thread::Builder::new().spawn(work))??;
        Ok(Shared { all, table })
    }
}

impl Calls for Shared {
    #[inline(always)]
    fn call(&mut self, key: u64) -> u64 {
        self.all.with(self.table, |table, ()| table.count(key)).expect("it is there")
    }

    fn flow(&mut self, _: usize, keys: impl Iterator<Item = u64>) -> u64 {
        keys.map(|key| self.call(key)).sum()
    }
}

/// The usual way: a map under a mutex, which both threads use.
pub(crate) struct MutexMap(Arc<Mutex<Table>>);

impl MutexMap {
    /// Makes it as [`Shared::new`] does.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let table = Arc::new(Mutex::new(Table::new()));
        let its = Arc::clone(&table);
        let mut key = 0;
        let work = move || loop {
            key = (key + 1) % ENTRIES;
            its.lock().expect("nobody panics").count(key);
        };
        pair.on_helper(|| thread::Builder::new().spawn(work))??;
        Ok(MutexMap(table))
    }
}

impl Calls for MutexMap {
    #[inline(always)]
    fn call(&mut self, key: u64) -> u64 {
        self.0.lock().expect("nobody panics").count(key)
    }

    fn flow(&mut self, _: usize, keys: impl Iterator<Item = u64>) -> u64 {
        keys.map(|key| self.call(key)).sum()
    }
}

/// The table's owner behind channels: requests one way, answers the other.
#[cfg(feature = "peers")]
pub(crate) struct Channel {
    requests: crossbeam_channel::Sender<u64>,
    answers: crossbeam_channel::Receiver<u64>,
}

#[cfg(feature = "peers")]
impl Channel {
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let (requests, asked) = crossbeam_channel::bounded::<u64>(64);
        let (answer, answers) = crossbeam_channel::bounded(64);
        let mut table = Table::new();
        let serve = move || {
            for key in asked {
                let _ = answer.send(table.count(key));
            }
        };
        pair.on_helper(|| thread::Builder::new().spawn(serve))??;
        Ok(Channel { requests, answers })
    }
}

#[cfg(feature = "peers")]
impl Calls for Channel {
    fn call(&mut self, key: u64) -> u64 {
        self.requests.send(key).expect(SERVED);
        self.answers.recv().expect(SERVED)
    }

    fn flow(&mut self, in_flight: usize, keys: impl Iterator<Item = u64>) -> u64 {
        let (mut sum, mut under_way) = (0, 0);
        for key in keys {
            if under_way == in_flight {
                sum += self.answers.recv().expect(SERVED);
                under_way -= 1;
            }
            self.requests.send(key).expect(SERVED);
            under_way += 1;
        }
        sum + (0..under_way).map(|_| self.answers.recv().expect(SERVED)).sum::<u64>()
    }
}

/// An actor, as the tokio documentation has it: a task that owns the table, an mpsc
/// channel to it, a oneshot with each request for its answer.
pub(crate) struct Oneshot {
    requests: tokio::sync::mpsc::Sender<(u64, tokio::sync::oneshot::Sender<u64>)>,
    runtime: tokio::runtime::Runtime,
}

impl Oneshot {
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let (requests, mut asked) =
            tokio::sync::mpsc::channel::<(u64, tokio::sync::oneshot::Sender<u64>)>(64);
        let runtime = || tokio::runtime::Builder::new_current_thread().build();
        let its = runtime()?;
        let serve = move || {
            its.block_on(async move {
                let mut table = Table::new();
                while let Some((key, answer)) = asked.recv().await {
                    let _ = answer.send(table.count(key));
                }
            });
        };
        pair.on_helper(|| thread::Builder::new().spawn(serve))??;
        Ok(Oneshot { requests, runtime: runtime()? })
    }
}

impl Calls for Oneshot {
    fn call(&mut self, key: u64) -> u64 {
        self.runtime.block_on(async {
            let (answer, answered) = tokio::sync::oneshot::channel();
            self.requests.send((key, answer)).await.expect(SERVED);
            answered.await.expect(SERVED)
        })
    }

    fn flow(&mut self, in_flight: usize, keys: impl Iterator<Item = u64>) -> u64 {
        self.runtime.block_on(async {
            let (mut sum, mut under_way) = (0, VecDeque::with_capacity(in_flight));
            for key in keys {
                if under_way.len() == in_flight {
                    let answer: tokio::sync::oneshot::Receiver<u64> =
                        under_way.pop_front().expect("some are under way");
                    sum += answer.await.expect(SERVED);
                }
                let (answer, answered) = tokio::sync::oneshot::channel();
                self.requests.send((key, answer)).await.expect(SERVED);
                under_way.push_back(answered);
            }
            for answer in under_way {
                sum += answer.await.expect(SERVED);
            }
            sum
        })
    }
}

/// The limit of many at a time: two threads that pass lines and count, and nothing else:
/// no wait but a spin, no number in the status, no function in the line.
pub(crate) struct Bare {
    lines: Arc<[Line; 32]>,
    next: u64,
}

/// Odd: asked; even: answered.
#[repr(C, align(128))]
#[derive(Default)]
struct Line {
    status: AtomicU64,
    word: AtomicU64,
}

impl Bare {
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let lines: Arc<[Line; 32]> = Arc::new(std::array::from_fn(|_| Line::default()));
        let its = Arc::clone(&lines);
        let mut table = Table::new();
        let serve = move || {
            for n in 0_u64.. {
                let (line, asked) = (&its[n as usize % 32], 2 * (n / 32) + 1);
                while line.status.load(Ordering::Acquire) != asked {}
                let key = line.word.load(Ordering::Relaxed);
                line.word.store(table.count(key), Ordering::Relaxed);
                line.status.store(asked + 1, Ordering::Release);
            }
        };
        pair.on_helper(|| thread::Builder::new().spawn(serve))??;
        Ok(Bare { lines, next: 0 })
    }

    #[inline(always)]
    fn ask(&mut self, key: u64) {
        let (line, asked) = (&self.lines[self.next as usize % 32], 2 * (self.next / 32) + 1);
        line.word.store(key, Ordering::Relaxed);
        line.status.store(asked, Ordering::Release);
        self.next += 1;
    }

    #[inline(always)]
    fn answer(&self, n: u64) -> u64 {
        let (line, answered) = (&self.lines[n as usize % 32], 2 * (n / 32) + 2);
        while line.status.load(Ordering::Acquire) != answered {}
        line.word.load(Ordering::Relaxed)
    }
}

impl Calls for Bare {
    #[inline(always)]
    fn call(&mut self, key: u64) -> u64 {
        self.ask(key);
        self.answer(self.next - 1)
    }

    #[inline(always)]
    fn flow(&mut self, in_flight: usize, keys: impl Iterator<Item = u64>) -> u64 {
        let (mut sum, mut oldest) = (0, self.next);
        for key in keys {
            if self.next - oldest == in_flight as u64 {
                sum += self.answer(oldest);
                oldest += 1;
            }
            self.ask(key);
        }
        sum + (oldest..self.next).map(|n| self.answer(n)).sum::<u64>()
    }
}
