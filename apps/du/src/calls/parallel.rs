//! The calling thread alone at first, others as soon as that is worth it.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use rustix::io::Errno;

use super::batched::Batched;
use super::{Calls, Meta, Open, Plain, Read, Stat};

/// Calls in a batch from which on a walk may be a long one. A short one is over
/// before an engine is there.
const LONG: usize = 64;

/// Calls in parallel. The engine is made by another thread, so that the walk
/// need not wait until it has measured what it must know of the machine.
#[derive(Default)]
pub(crate) struct Parallel(State);

#[derive(Default)]
enum State {
    #[default]
    Alone,
    /// Something is being made ready.
    Starting(Receiver<Batched>),
    Ready(Box<Batched>),
    /// There will be no help: the lines are the same, only later.
    Refused,
}

impl Parallel {
    /// Who makes the calls of a batch of so many, if not this thread.
    fn helped(&mut self, calls: usize) -> Option<&mut Batched> {
        match &self.0 {
            State::Alone if calls >= LONG => self.0 = start(),
            State::Starting(engine) => match engine.try_recv() {
                Ok(batched) => self.0 = State::Ready(Box::new(batched)),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.0 = State::Refused,
            },
            State::Alone | State::Ready(_) | State::Refused => {}
        }
        match &mut self.0 {
            State::Ready(batched) => Some(batched),
            _ => None,
        }
    }
}

fn start() -> State {
    let (sender, engine) = channel();
    let make = move || {
        if let Ok(batched) = Batched::new() {
            // Nobody waits any more if the walk is over.
            let _ = sender.send(batched);
        }
    };
    match thread::Builder::new().spawn(make) {
        Ok(_) => State::Starting(engine),
        Err(_) => State::Refused,
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
    ) {
        match self.helped(most(&batch)) {
            Some(batched) => batched.stat(batch, results),
            None => Plain.stat(batch, results),
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
