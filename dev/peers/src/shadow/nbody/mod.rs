//! Subjects that divide a loop between main and a helper, again and again: the
//! attraction of bodies, two loops an iteration, as forkunion's own benchmark has it.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::pair::Pair;
use crate::shadow::request::Request;
use crate::stopwatch::{Amount, Stopwatch};

use self::bodies::Bodies;
use self::others::Others;

mod bodies;
#[cfg(feature = "peers")]
pub(crate) mod forkunion;
pub(crate) mod kumiki;
#[cfg(feature = "peers")]
pub(crate) mod openmp;
mod others;
pub(crate) mod rayon;

/// A way to divide loops between two threads, ready on its two cpus.
pub(crate) trait Loops {
    /// Calls `task` with each number below `n`, here and on the helper, and waits until
    /// all have returned.
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send);

    /// Two loops, of which the second begins when all tasks of the first have returned.
    #[inline]
    fn two(
        &mut self,
        n: usize,
        first: impl Fn(usize) + Sync + Send,
        second: impl Fn(usize) + Sync + Send,
    ) {
        self.each(n, first);
        self.each(n, second);
    }
}

/// No helper at all.
pub(crate) struct Sequential;

impl Loops for Sequential {
    #[inline]
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        (0..n).for_each(task);
    }
}

/// The half of main, member 0, or of the helper, member 1.
fn half(n: usize, member: usize) -> Range<usize> {
    let middle = n.div_ceil(2);
    if member == 0 { 0..middle } else { middle..n }
}

#[inline]
fn iterate(subject: &mut impl Loops, bodies: &Bodies) {
    subject.two(bodies.len(), |i| bodies.attract(i), |i| bodies.advance(i));
}

/// A subject and what times it.
pub(crate) struct Looper<S> {
    subject: S,
    watch: Stopwatch,
    pair: Pair,
}

/// Iterations after which a subject's bodies have to be where those of a plain loop are.
const CHECKED: usize = 3;

const HOT: Amount = Amount { warm: 5, ..Amount::hot(50) };

/// So long are iterations counted for one sample beside a process on each cpu, longer
/// beside more: each thread has lost its cpu some times and got it back.
const WINDOW: Duration = Duration::from_millis(30);
const WINDOWS: usize = 3;

impl<S: Loops> Looper<S> {
    /// Asks `subject` from now on.
    pub(crate) fn new(subject: S, pair: Pair) -> Self {
        Looper { subject, watch: Stopwatch::new(), pair }
    }

    /// Samples of one turn: nanoseconds of an iteration.
    pub(crate) fn answer(&mut self, request: Request) -> Result<Option<Vec<f64>>> {
        let Request::NBody { bodies, busy } = request else { return Ok(None) };
        let bodies = checked(&mut self.subject, bodies)?;
        if busy == 0 {
            let iteration = || iterate(&mut self.subject, &bodies);
            return Ok(Some(self.watch.each(HOT, iteration)));
        }
        let _others = Others::beside(self.pair, busy)?;
        let window = WINDOW * busy.div_ceil(2) as u32;
        let samples = (0..WINDOWS).map(|_| {
            let (start, mut iterations) = (Instant::now(), 0);
            while start.elapsed() < window {
                iterate(&mut self.subject, &bodies);
                iterations += 1;
            }
            start.elapsed().as_nanos() as f64 / f64::from(iterations)
        });
        Ok(Some(samples.collect()))
    }
}

/// So many bodies that `subject` has moved a few times, to where they belong.
fn checked(subject: &mut impl Loops, n: usize) -> Result<Bodies> {
    let [bodies, plain] = [(); 2].map(|()| Bodies::new(n));
    for _ in 0..CHECKED {
        iterate(subject, &bodies);
        iterate(&mut Sequential, &plain);
    }
    ensure!(bodies.state() == plain.state(), "{n} bodies are not where a plain loop moves them");
    Ok(bodies)
}

#[cfg(test)]
mod tests;
