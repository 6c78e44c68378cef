//! Memory that has become free, and is given back to the kernel.

use std::time::{Duration, Instant};

use kumiki_sys::heap;

use super::{SECOND, Worker};

/// Bytes that are given back to the kernel once so many have become free. Less than what a worker's clients
/// may have at the least, four times the longest word, so that what they leave is ever so much.
const MUCH: usize = 1 << 20;
/// A worker gives back for one part in so many of its time, at most.
const SHARE: u32 = 100;

/// State of a worker in giving back.
#[derive(Debug)]
pub(super) struct Giving {
    /// The most that keys and clients have had since it was last done, bytes.
    most_had: usize,
    /// Bytes that had come and gone by then. What commands and answers take while they are run and made
    /// is in no count of what there is.
    through: u64,
    /// Time at which it is to be done.
    pub(super) at: Option<Instant>,
    /// Time from then on: more may become free, or it may be needed again.
    pause: Duration,
}

impl Giving {
    pub(super) fn new() -> Giving {
        Giving { most_had: 0, through: 0, at: None, pause: SECOND }
    }

    /// Keys and clients have so many bytes.
    pub(super) fn sees(&mut self, has: usize) {
        self.most_had = self.most_had.max(has);
    }
}

impl Worker {
    /// Bytes that its keys and clients have.
    pub(super) fn has(&self) -> usize {
        self.kept + self.counters().key_bytes.get() as usize
    }

    /// Gives the kernel what has become free, once that is much and a second has passed.
    pub(super) fn give_back(&mut self) {
        let has = self.has();
        let through = self.counters().input.get().wrapping_add(self.counters().output.get());
        let Worker { giving, woken, shared, .. } = self;
        giving.sees(has);
        let came = through.wrapping_sub(giving.through);
        match giving.at {
            Some(at) if at <= *woken => {
                // The heap is all workers': one of them may have done it since.
                if !shared.was_given_back_since(at - giving.pause) {
                    let start = Instant::now();
                    shared.given_back_from(start);
                    heap::give_back();
                    giving.pause = (start.elapsed() * SHARE).max(SECOND);
                }
                (giving.at, giving.most_had, giving.through) = (None, has, through);
            }
            Some(_) => {}
            None if giving.most_had - has >= MUCH || came >= MUCH as u64 => {
                giving.at = Some(*woken + giving.pause);
            }
            None => {}
        }
    }
}
