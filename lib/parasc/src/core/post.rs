//! A place for one thread, which comes when it is wanted and retires by itself.
//!
//! # States
//! | from | to | who |
//! |---|---|---|
//! | `EMPTY` | `TAKEN` | whoever wants the thread and starts it |
//! | `TAKEN` | `EMPTY` | the thread: no work for a while, or it could not start |
//! | `EMPTY` | `TAKEN` | the thread, which has found work after all |
//! | any | `CLOSED` | the thread, which cannot serve here |
//!
//! Between its last look for work and `EMPTY` a thread may miss a request. So it looks
//! again after `EMPTY`, with a heavy fence in between; who publishes a request looks at
//! the state after a light one. One of the two sees the other.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use kumiki_wait::barrier;

use crate::primitive::AtomicU32;

const EMPTY: u32 = 0;
const TAKEN: u32 = 1;
const CLOSED: u32 = 2;

/// State of a thread's post: there or not.
#[derive(Debug)]
pub(crate) struct Post(AtomicU32);

/// State of a post, as found by who wants a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostState {
    /// Nobody: the post is the finder's, to start a thread for it.
    Vacant,
    /// A thread, perhaps asleep.
    Taken,
    /// No thread can serve here.
    Closed,
}

impl Default for Post {
    fn default() -> Self {
        Post(AtomicU32::new(EMPTY))
    }
}

impl Post {
    /// True if a thread is there or on its way.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        // Acquire: partner is `set`.
        self.0.load(Acquire) == TAKEN
    }

    /// True if no thread can serve here.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Acquire) == CLOSED
    }

    /// Looks who is there, after a request has been published.
    pub(crate) fn enter(&self) -> PostState {
        // Partner: the heavy fence in `retire`.
        barrier::light();
        let found = match self.0.load(Relaxed) {
            EMPTY => self.0.compare_exchange(EMPTY, TAKEN, AcqRel, Relaxed).err(),
            other => Some(other),
        };
        match found {
            None => PostState::Vacant,
            Some(TAKEN) => PostState::Taken,
            Some(_) => PostState::Closed,
        }
    }

    /// No thread is there after all, and none can be if it `closes`.
    pub(crate) fn leave(&self, closes: bool) {
        // Release: partners are the looks above.
        self.0.store(if closes { CLOSED } else { EMPTY }, Release);
    }

    /// The thread that is there goes. `true` if it must stay after all: somebody has
    /// published a request for which no other thread has been started.
    pub(crate) fn retire(
        &self,
        ends: impl FnOnce() -> bool,
        has_work: impl FnOnce() -> bool,
    ) -> bool {
        self.leave(false);
        // Partner: the light fence in `enter`. One that does not reach all keeps the
        // thread from retiring, not from ending where it `ends`.
        let certain = barrier::heavy();
        !ends()
            && (!certain || has_work())
            && self.0.compare_exchange(EMPTY, TAKEN, Acquire, Relaxed).is_ok()
    }
}
