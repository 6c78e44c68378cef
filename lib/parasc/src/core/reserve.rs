//! Threads that sleep until so many of them are called.
//!
//! Who has work for them publishes it, then calls: idle ones are woken, all by one
//! system call, and for those that are missing the caller takes places to start more.
//!
//! A thread without work says that it is idle, then looks once more; who publishes
//! looks for idle ones afterwards. Both under one lock, which orders the two: either
//! the thread sees the work or it is called. Which one comes does not matter, so calls
//! are only counted: whoever is awake takes one.

use std::time::Instant;

use kumiki_wait::EventCount;

use crate::primitive::{Mutex, lock};

/// Places for threads of which any is as good as another.
#[derive(Debug)]
pub(crate) struct Reserve {
    members: Mutex<Members>,
    /// Event at which the idle ones sleep.
    calls: EventCount,
    places: usize,
}

#[derive(Debug)]
struct Members {
    /// Threads that wait to be called.
    idle: usize,
    /// Threads that have been called, and have not come yet.
    called: usize,
    /// Places without a thread.
    vacant: Vec<usize>,
}

impl Reserve {
    /// Makes so many places, all vacant.
    pub(crate) fn new(places: usize) -> Self {
        let members = Members { idle: 0, called: 0, vacant: (0..places).collect() };
        Reserve { members: Mutex::new(members), calls: EventCount::new(), places }
    }

    /// True if there is no thread, nor one on its way.
    pub(crate) fn is_vacant(&self) -> bool {
        lock(&self.members).vacant.len() == self.places
    }

    /// Calls up to `threads` idle ones, and says how many.
    pub(crate) fn call(&self, threads: usize) -> usize {
        let called = lock(&self.members).call(threads);
        if called > 0 {
            self.calls.notify(called as u32);
        }
        called
    }

    /// Wakes all, to see that they are to end.
    pub(crate) fn wake_all(&self) {
        self.calls.notify(u32::MAX);
    }

    /// Takes a place in which no thread is, to start one.
    pub(crate) fn take_place(&self) -> Option<usize> {
        lock(&self.members).vacant.pop()
    }

    /// Gives a place back: its thread has not come about, or is gone.
    pub(crate) fn give_place(&self, at: usize) {
        lock(&self.members).vacant.push(at);
    }

    /// The thread of place `at` waits to be called: `true`. `false` if it is to end:
    /// nobody has called until `retire`, and its place is vacant again; or it `ends`.
    pub(crate) fn idle(
        &self,
        at: usize,
        retire: Option<Instant>,
        ends: impl Fn() -> bool,
        has_work: impl Fn() -> bool,
    ) -> bool {
        // Before each look at the calls: one that comes later ends the sleep.
        let mut seen = self.calls.look();
        lock(&self.members).idle += 1;
        loop {
            if ends() || has_work() {
                lock(&self.members).leave();
                return !ends();
            }
            let late = self.calls.sleep(seen, retire);
            seen = self.calls.look();
            let mut members = lock(&self.members);
            if members.come() {
                return !ends();
            }
            if late {
                members.leave();
                members.vacant.push(at);
                return false;
            }
        }
    }
}

impl Members {
    fn call(&mut self, threads: usize) -> usize {
        let called = threads.min(self.idle);
        self.idle -= called;
        self.called += called;
        called
    }

    /// Takes a call, if there is one.
    fn come(&mut self) -> bool {
        let called = self.called > 0;
        self.called -= usize::from(called);
        called
    }

    /// Takes out a thread that was idle and is not any more. If all have been called it takes one
    /// of the calls: whoever wakes for that finds none, and is idle again.
    fn leave(&mut self) {
        if !self.come() {
            self.idle -= 1;
        }
    }
}
