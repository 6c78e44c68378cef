//! The limit: threads that stand ready and do nothing but the calls. No
//! requests in shared memory, nothing learnt, nothing that anybody could use.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::Result;
use kumiki_parasc::Request;
use kumiki_wait::EventCount;

use super::Execute;
use super::handoff::Handoff;
use super::request::Kind;
use super::share::Share;
use super::work::Work;
use crate::pair::Pair;

/// Threads for calls that sleep: with more fsyncs at once than this the disks
/// seen so far took as long.
const SLEEPERS: usize = 64;
/// Threads for reads that wait for a disk: as many as keep it at work.
const READERS: usize = 16;

/// Two threads that spin and take a half each; for calls that sleep, threads
/// that take one after the other.
pub(crate) struct Bare {
    pair: Pair,
    team: Team,
}

enum Team {
    Missing,
    Half(Half),
    One(Handoff),
    Many(Many),
}

impl Bare {
    /// Without threads, until it is known for what.
    pub(crate) fn new(pair: Pair) -> Self {
        Bare { pair, team: Team::Missing }
    }
}

impl Execute for Bare {
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        match &mut self.team {
            Team::Missing => unreachable!("it was told what to expect"),
            Team::Half(half) => half.execute(Share::cut(requests, results, 2)),
            Team::One(handoff) => {
                for (request, result) in requests.iter().zip(results) {
                    // SAFETY: the caller's promise.
                    *result = unsafe { handoff.call(request) };
                }
            }
            Team::Many(many) => many.execute(Share::cut(requests, results, requests.len())),
        }
    }

    fn expect(&mut self, work: &Work) -> Result<()> {
        self.team = match work.kind() {
            Kind::Handoff => Team::One(Handoff::new(self.pair)?),
            kind if kind.is_cold() => Team::Many(Many::new(self.pair, READERS)?),
            kind if kind.sleeps() => Team::Many(Many::new(self.pair, work.len().min(SLEEPERS))?),
            _ => Team::Half(Half::new(self.pair)?),
        };
        Ok(())
    }
}

const IDLE: usize = 0;
const ASKED: usize = 1;
const OVER: usize = 2;

/// A helper on the other cpu, which spins.
struct Half {
    line: Arc<BareLine>,
    helper: Option<JoinHandle<()>>,
}

#[derive(Default)]
#[repr(align(128))]
struct BareLine {
    state: AtomicUsize,
    /// Never contended: `state` says whose it is.
    share: Mutex<Option<Share>>,
}

impl Half {
    fn new(pair: Pair) -> Result<Self> {
        let line = Arc::new(BareLine::default());
        let its = Arc::clone(&line);
        let help = move || {
            loop {
                match its.state.load(Acquire) {
                    IDLE => continue,
                    OVER => return,
                    _ => (),
                }
                let share = its.share.lock().expect("calls do not panic").take();
                // SAFETY: whoever asked waits for IDLE.
                unsafe { share.expect("put there before").execute() };
                its.state.store(IDLE, Release);
            }
        };
        let helper = pair.on_helper(|| std::thread::Builder::new().spawn(help))??;
        Ok(Half { line, helper: Some(helper) })
    }

    fn execute(&self, mut shares: impl Iterator<Item = Share>) {
        let own = shares.next();
        if let Some(other) = shares.next() {
            *self.line.share.lock().expect("calls do not panic") = Some(other);
            self.line.state.store(ASKED, Release);
        }
        if let Some(own) = own {
            // SAFETY: `Bare::execute` has the caller's promise, and waits.
            unsafe { own.execute() };
        }
        while self.line.state.load(Acquire) == ASKED {}
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        self.line.state.store(OVER, Release);
        self.helper.take().map(JoinHandle::join);
    }
}

/// Threads that all sleep on one word; the caller takes part.
struct Many {
    common: Arc<Common>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Common {
    begun: EventCount,
    ended: EventCount,
    /// Shares of the batch that are not done.
    left: AtomicUsize,
    /// The last one first; `None`: there are no more batches.
    shares: Mutex<Option<Vec<Share>>>,
}

impl Many {
    fn new(pair: Pair, threads: usize) -> Result<Self> {
        let common = Arc::new(Common { shares: Mutex::new(Some(Vec::new())), ..Common::default() });
        let serve = |common: Arc<Common>| {
            move || {
                pair.bind_both().expect("the cpus were free to use a moment ago");
                common.serve();
            }
        };
        let start = |_| std::thread::Builder::new().spawn(serve(Arc::clone(&common)));
        let threads = (0..threads).map(start).collect::<Result<_, _>>()?;
        Ok(Many { common, threads })
    }

    fn execute(&self, shares: impl Iterator<Item = Share>) {
        self.common.run(Some(shares.collect()));
    }
}

impl Common {
    fn run(&self, shares: Option<Vec<Share>>) {
        self.left.store(shares.as_ref().map_or(0, Vec::len), Relaxed);
        *self.shares.lock().expect("calls do not panic") = shares;
        self.begun.notify(u32::MAX);
        self.work();
        loop {
            let seen = self.ended.look();
            if self.left.load(Acquire) == 0 {
                break;
            }
            self.ended.sleep(seen, None);
        }
    }

    /// Takes shares until there are none. `false` if there are no more batches.
    fn work(&self) -> bool {
        let next = || self.shares.lock().expect("calls do not panic").as_mut().map(Vec::pop);
        loop {
            match next() {
                Some(Some(share)) => {
                    // SAFETY: `Bare::execute` has the caller's promise, and waits.
                    unsafe { share.execute() };
                    if self.left.fetch_sub(1, AcqRel) == 1 {
                        self.ended.notify(1);
                    }
                }
                other => return other.is_some(),
            }
        }
    }

    fn serve(&self) {
        loop {
            let seen = self.begun.look();
            if !self.work() {
                break;
            }
            self.begun.sleep(seen, None);
        }
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.common.run(None);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
