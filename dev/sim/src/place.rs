//! Where a protocol runs: on a simulated machine, or on two cpus of this one.
//!
//! Outside of a run the doubles are what they double, so a protocol's code is the same in both.

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use kumiki_sys::affinity;
use kumiki_sys::sim::Machine as _;

use crate::engine::{Counts, Run};
use crate::machine::Machine;
use crate::report::{Report, counted};

/// A machine for a protocol.
#[derive(Clone, Debug)]
pub enum Place {
    /// A simulated one.
    Simulated(Machine),
    /// Two real cpus, by their numbers.
    Here([usize; 2]),
}

/// A protocol's run there.
#[derive(Debug)]
pub(crate) enum Stage {
    Simulated(&'static Run),
    Here(Here),
}

/// A thread of a protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helper(usize);

/// Real threads.
#[derive(Debug)]
pub(crate) struct Here {
    cpus: [usize; 2],
    threads: RefCell<Vec<Option<thread::JoinHandle<()>>>>,
}

/// Batches of operations of which the median is taken: a tick of the system's falls into few.
const BATCHES: usize = 41;

impl Place {
    /// This machine's first two cpus that the process may use.
    ///
    /// # Errors
    /// There is one alone.
    pub(crate) fn here() -> Result<Place> {
        let allowed = affinity::current()?;
        let mut cpus = allowed.iter();
        let second = |cpu: Option<usize>| cpu.context("a protocol between threads takes two cpus");
        Ok(Place::Here([second(cpus.next())?, second(cpus.next())?]))
    }

    /// Number of its cpus.
    pub(crate) fn cpus(&self) -> usize {
        match self {
            Place::Simulated(machine) => machine.cpus,
            Place::Here(cpus) => cpus.len(),
        }
    }

    /// Runs `body` on its first cpu.
    pub(crate) fn run<T: 'static>(&self, body: impl FnOnce(&Stage) -> T + 'static) -> T {
        match self {
            Place::Simulated(machine) => Run::of(machine, |run| body(&Stage::Simulated(run))),
            Place::Here(cpus) => {
                let _bound = affinity::bind(cpus[0]).expect("it was allowed a moment ago");
                body(&Stage::Here(Here { cpus: *cpus, threads: RefCell::default() }))
            }
        }
    }
}

impl Stage {
    /// Starts a thread on a cpu of the place, by its number there.
    pub(crate) fn spawn(&self, cpu: usize, body: impl FnOnce() + Send + 'static) -> Helper {
        match self {
            Stage::Simulated(run) => Helper(run.spawn(cpu, Box::new(body))),
            Stage::Here(here) => {
                let cpu = here.cpus[cpu];
                let (there, is_there) = mpsc::channel();
                let thread = thread::spawn(move || {
                    let _bound = affinity::bind(cpu).expect("it was allowed a moment ago");
                    there.send(()).expect("the starter waits");
                    body();
                });
                // It begins on its starter's cpu.
                is_there.recv().expect("the thread is there, or has panicked");
                let mut threads = here.threads.borrow_mut();
                threads.push(Some(thread));
                Helper(threads.len() - 1)
            }
        }
    }

    /// Waits for its end.
    pub(crate) fn join(&self, helper: Helper) {
        match self {
            Stage::Simulated(run) => run.join(helper.0),
            Stage::Here(here) => {
                let thread = here.threads.borrow_mut()[helper.0].take();
                thread.expect("joined once").join().expect("a protocol's thread has panicked");
            }
        }
    }

    /// Runs `operation` `warm` times, and then `rounds` times, which count: here in batches of
    /// as many.
    pub(crate) fn measured(&self, warm: u32, rounds: u32, mut operation: impl FnMut()) -> Report {
        match self {
            Stage::Simulated(run) => counted(run, warm, rounds, operation),
            Stage::Here(_) => {
                let mut batch = |rounds: u32| {
                    let begin = Instant::now();
                    (0..rounds).for_each(|_| operation());
                    begin.elapsed().as_nanos() as f64 / f64::from(rounds)
                };
                batch(warm);
                let mut batches: Vec<f64> = (0..BATCHES).map(|_| batch(rounds)).collect();
                batches.sort_by(f64::total_cmp);
                let ns = batches[BATCHES / 2];
                let (counts, place) = (Counts::default(), String::new());
                Report { data: 0.0, upgrades: 0.0, worst: 0.0, place, ns, counts }
            }
        }
    }
}

/// Operations of a protocol in all, for a thread that has to know when it is over.
pub(crate) fn operations(place: &Place, warm: u32, rounds: u32) -> u64 {
    match place {
        Place::Simulated(_) => u64::from(warm + rounds),
        Place::Here(_) => u64::from(warm) + u64::from(rounds) * BATCHES as u64,
    }
}
