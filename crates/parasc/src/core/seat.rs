//! A cpu's place for a processing thread that spins, as others see it.
//!
//! A requesting thread that leaves its batch to the thread of a seat waits for the
//! results, or for the seat to have no thread: then it makes the calls itself. Who
//! leaves a seat for want of a thread rings for it.

use std::sync::atomic::Ordering::Relaxed;

use kumiki_crew::Post;
use kumiki_wait::Bell;

use super::Berth;
use crate::primitive::AtomicU32;

/// One cpu's place.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Seat {
    /// Where its thread sleeps.
    pub(crate) bell: Bell,
    pub(crate) cpu: usize,
    pub(crate) post: Post,
    /// Not 0: called, and has not looked since. From the call until the thread
    /// runs it takes a while, and a batch offered to it until then would be the
    /// caller's alone, and counted as a bad one.
    called: AtomicU32,
    /// With a line of its own, which is written with every request.
    pub(crate) berth: Berth,
}

impl Seat {
    pub(crate) fn new(cpu: usize) -> Self {
        Seat {
            bell: Bell::new(),
            cpu,
            post: Post::default(),
            called: AtomicU32::new(0),
            berth: Berth::default(),
        }
    }

    /// Whether a thread is awake here, and sees a request soon.
    #[inline]
    pub(crate) fn is_hot(&self) -> bool {
        self.post.is_taken() && self.called.load(Relaxed) == 0 && !self.bell.is_asleep()
    }

    /// Says that this seat's thread looks: by the thread itself. `true` if it has
    /// been called since it last did.
    #[inline(always)]
    pub(crate) fn looks(&self) -> bool {
        // A hint: it orders nothing.
        let called = self.called.load(Relaxed) != 0;
        if called {
            self.called.store(0, Relaxed);
        }
        called
    }

    /// Says that its thread has been called, and does not look yet.
    pub(crate) fn note_call(&self) {
        self.called.store(1, Relaxed);
    }

    /// Wakes the thread that is here, if it sleeps.
    pub(crate) fn call(&self) {
        if self.bell.is_asleep() {
            self.note_call();
        }
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use kumiki_crew::Entry;

    use super::*;

    #[test]
    fn a_thread_is_hot_once_it_looks() {
        let seat = Seat::new(0);
        assert!(!seat.is_hot());
        // As if a thread had been started, and had not run yet.
        assert_eq!(seat.post.enter(), Entry::Vacant);
        seat.note_call();
        assert!(!seat.is_hot());
        assert!(seat.looks() && !seat.looks());
        assert!(seat.is_hot());
        // Awake: nothing to wait for.
        seat.call();
        assert!(seat.is_hot());
    }
}
