//! The pool's life, in one word: who makes it, who ends it, and who waits for either.
//!
//! ```text
//!           claim              tell(true)            end              ended
//!   NONE ─────────► STARTING ─────────────► READY ─────────► ENDING ─────────► NONE
//!                      │ tell(false)                     ends: who has moved the word
//!                      └────────────► FAILED, for ever   waits: who finds ENDING or STARTING
//! ```
//! Each move is an exchange, so that one thread makes it. Whoever waits looks at the event count first and at
//! the word then; whoever moves the word notifies after it. A thread of the pool looks at `work`'s count, then
//! whether it is over, then for a request: an end that comes later has changed the count before it sleeps.

use kumiki_wait::EventCount;

use crate::primitive::{AtomicU8, Ordering};

#[cfg(all(test, loom))]
mod loom;

const NONE: u8 = 0;
const STARTING: u8 = 1;
const READY: u8 = 2;
const ENDING: u8 = 3;
const FAILED: u8 = 4;

/// The word, and the event that it has moved.
#[derive(Debug)]
pub(crate) struct Life {
    word: AtomicU8,
    changed: EventCount,
}

/// Finding of a thread that wants a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The caller makes the pool, and tells.
    Mine,
    There,
    /// Somebody is at it, or it cannot be made.
    No,
}

impl Life {
    pub(crate) fn new() -> Self {
        Life { word: AtomicU8::new(NONE), changed: EventCount::new() }
    }

    pub(crate) fn claim(&self) -> Claim {
        match self.word.compare_exchange(NONE, STARTING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Claim::Mine,
            Err(READY) => Claim::There,
            Err(_) => Claim::No,
        }
    }

    /// Tells that all are there, or that there are none; called by the pool, or by who has claimed it.
    pub(crate) fn tell(&self, is_there: bool) {
        self.moved(if is_there { READY } else { FAILED });
    }

    fn moved(&self, to: u8) {
        self.word.store(to, Ordering::Release);
        self.changed.notify(u32::MAX);
    }

    /// Waits, after a claim, until the pool has told; true if it is there.
    pub(crate) fn is_made(&self) -> bool {
        self.wait(|word| word != STARTING) == READY
    }

    fn wait(&self, until: impl Fn(u8) -> bool) -> u8 {
        loop {
            let seen = self.changed.look();
            let word = self.word.load(Ordering::Acquire);
            if until(word) {
                return word;
            }
            self.changed.sleep(seen, None);
        }
    }

    /// True for the one who is to end the pool and then says so; false if there is none, or another one has ended it.
    pub(crate) fn is_to_end(&self) -> bool {
        loop {
            match self.wait(|word| word != STARTING) {
                READY => {
                    let moved = self.word.compare_exchange(
                        READY,
                        ENDING,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    );
                    if moved.is_ok() {
                        return true;
                    }
                }
                ENDING => _ = self.wait(|word| word != ENDING),
                _ => return false,
            }
        }
    }

    /// The pool has ended; another one may be made, or never.
    pub(crate) fn ended(&self, is_gone: bool) {
        self.moved(if is_gone { NONE } else { FAILED });
    }

    /// True while the pool is there.
    pub(crate) fn is_there(&self) -> bool {
        self.word.load(Ordering::Acquire) == READY
    }

    /// True for the pool's threads once they are to end.
    pub(crate) fn is_over(&self) -> bool {
        self.word.load(Ordering::Acquire) == ENDING
    }
}
