//! So many places for all threads of a process, and whether somebody was refused one.
//!
//! ```text
//!   taker                                     giver
//!   T1 count < most? add 1, done              G1 subtract 1
//!   T2 wanted := true; fence                     fence
//!   T3 count < most? add 1, done              G2 wanted? := false, and it is told
//!      else refused: it stops to ask
//! ```
//!
//! # Why no place stays free while somebody wants one
//! One of the two fences comes before the other. If G1's is first, T3 finds the place; if it is T2's,
//! G2 finds `wanted`. Who is told has to see to those who wait
//! (accept a connection that waits in the queue of a socket, say); a refused taker need not come
//! again by itself.
//!
//! One giver is told for all takers that were refused before: who takes what they wait for and finds
//! that there is more to be taken, and no place, wants one anew.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

use crate::primitive::{AtomicBool, AtomicUsize, fence};

/// Places of which many threads take one each, as connections that a server may have.
///
/// ```
/// use kumiki_wait::Capacity;
///
/// let places = Capacity::new(1);
/// assert!(places.take());
/// // Nobody was refused: who gives one back has nothing to see to.
/// assert!(!places.give_back());
/// assert!(places.take() && !places.take());
/// assert!(places.give_back());
/// ```
#[derive(Debug)]
pub struct Capacity {
    taken: AtomicUsize,
    wanted: AtomicBool,
    most: usize,
}

impl Capacity {
    /// None taken of `most`.
    pub fn new(most: usize) -> Self {
        Capacity { taken: AtomicUsize::new(0), wanted: AtomicBool::new(false), most }
    }

    /// Takes a place. Where it is refused one, the thread that next gives one back is told.
    #[must_use]
    pub fn take(&self) -> bool {
        if self.try_take() {
            return true;
        }
        // T2. Partner: the fence of `give_back`.
        self.wanted.store(true, Relaxed);
        fence(SeqCst);
        self.try_take()
    }

    /// The order in which a refusal is lost: for a model that shows that it would find it.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn take_too_early(&self) -> bool {
        let taken = self.try_take();
        if !taken {
            self.wanted.store(true, Relaxed);
            fence(SeqCst);
        }
        taken
    }

    fn try_take(&self) -> bool {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(AcqRel, Acquire, more).is_ok()
    }

    /// Gives a place back that was taken, and says whether somebody was refused one since this was
    /// last said: then the caller sees to those who wait.
    #[must_use]
    pub fn give_back(&self) -> bool {
        self.taken.fetch_sub(1, AcqRel);
        // Partner: the fence of `take`.
        fence(SeqCst);
        // G2. The load first: mostly nobody wants one, and a swap takes the line from all others.
        self.wanted.load(Relaxed) && self.wanted.swap(false, AcqRel)
    }

    /// Number of units that are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Number of units that there are.
    pub fn most(&self) -> usize {
        self.most
    }
}
