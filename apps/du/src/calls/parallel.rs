//! The calling thread alone at first, others as soon as that is worth it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::batched::Batched;
use super::{Calls, Meta, Open, Plain, Read, Stat};

/// Calls after which a walk is taken for a long one: they have taken about as
/// long as an engine takes to measure what it must know of the machine. A short
/// walk is over before.
const LONG: usize = 2048;

/// Calls in parallel, from some number of them on.
pub(crate) enum Parallel {
    /// So many calls have been made.
    Alone(usize),
    Ready(Box<Batched>),
    /// There will be no help: the lines are the same, only later.
    Refused,
}

impl Parallel {
    /// Alone. Call it while the process has one thread: what makes a wake cheap
    /// later takes no time then, and some milliseconds with others there.
    pub(crate) fn new() -> Self {
        kumiki_wait::barrier::is_asymmetric();
        Parallel::Alone(0)
    }

    /// Who makes the calls of a batch of so many, if not this thread.
    fn helped(&mut self, calls: usize) -> Option<&mut Batched> {
        if let Parallel::Alone(made) = self {
            *made += calls;
            if *made >= LONG {
                let ready = |batched| Parallel::Ready(Box::new(batched));
                *self = Batched::new().map_or(Parallel::Refused, ready);
            }
        }
        match self {
            Parallel::Ready(batched) => Some(batched),
            Parallel::Alone(_) | Parallel::Refused => None,
        }
    }
}

/// How many calls a batch has at most.
fn most(batch: &impl Iterator) -> usize {
    let (least, most) = batch.size_hint();
    most.unwrap_or(least)
}

impl Calls for Parallel {
    fn stat<'a>(
        &mut self,
        batch: impl Iterator<Item = Stat<'a>>,
        results: &mut Vec<Result<Meta, Errno>>,
        meanwhile: impl FnOnce(),
    ) {
        match self.helped(most(&batch)) {
            Some(batched) => batched.stat(batch, results, meanwhile),
            None => Plain.stat(batch, results, meanwhile),
        }
    }

    fn open<'a>(
        &mut self,
        batch: impl Iterator<Item = Open<'a>>,
        results: &mut Vec<Result<OwnedFd, Errno>>,
    ) {
        match self.helped(most(&batch)) {
            Some(batched) => batched.open(batch, results),
            None => Plain.open(batch, results),
        }
    }

    fn read<'a>(
        &mut self,
        batch: impl Iterator<Item = Read<'a>>,
        results: &mut Vec<Result<usize, Errno>>,
    ) {
        match self.helped(most(&batch)) {
            Some(batched) => batched.read(batch, results),
            None => Plain.read(batch, results),
        }
    }

    fn close(&mut self, batch: &mut Vec<OwnedFd>) {
        match self.helped(batch.len()) {
            Some(batched) => batched.close(batch),
            None => Plain.close(batch),
        }
    }
}
