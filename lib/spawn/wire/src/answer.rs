//! How the library waits for an answer, and a child for its maps. `tests/loom` runs this under
//! every interleaving.
//!
//! ```text
//! library                              server, its child, or the kernel
//!  asleep while the state is ASKED,
//!  TAKEN or STARTS ◀───────────────── state = DONE or another last one, futex wake
//!  writes the maps ◀───────────────── child: state = MAPS, futex wake; asleep while it is MAPS
//!  state = TAKEN, futex wake ───────▶ child: goes on
//! ```
//!
//! Nobody says that it sleeps: who changes the state wakes, each time, and after the change. The
//! kernel compares the state with the one that the sleeper has seen under the lock under which it
//! wakes, so a change is seen by who falls asleep later, and wakes who has fallen asleep before.
//!
//! Library and child sleep at one word, and each wake is for one sleeper. It finds the right one:
//! the child sleeps while the state is MAPS, at which the library never sleeps, and only the library
//! ends that.
//!
//! A server that is killed changes nothing any more. So the library looks from time to time whether
//! it lives, and then at the state once more: what was answered before the end counts.

use core::sync::atomic::Ordering::{Acquire, Release};

use crate::word::Word;
use crate::{ASKED, MAPS, STARTS, TAKEN};

/// The library, as far as it waits.
pub trait Waiter {
    /// Sleeps while the state is `now`; whether it is time to look if the server lives.
    fn sleep(&mut self, now: u32) -> bool;
    /// Looks if the server lives.
    fn is_alive(&mut self) -> bool;
    /// Writes the maps for which the child waits.
    fn map(&mut self);
    /// Wakes the child, if it sleeps.
    fn wake(&mut self);
    /// The server has died, and no child waits for maps.
    fn has_died(&mut self);
}

/// Waits until the state is a last one, or the server has died; the state.
pub fn wait(state: &impl Word, waiter: &mut impl Waiter) -> u32 {
    loop {
        // Acquire: what was written before the state was. Partner: `give`.
        let now = state.load(Acquire);
        if now == MAPS {
            waiter.map();
            give(state, TAKEN, || waiter.wake());
            continue;
        }
        if !matches!(now, ASKED | TAKEN | STARTS) {
            return now;
        }
        if waiter.sleep(now) && !waiter.is_alive() {
            let last = state.load(Acquire);
            if last == MAPS {
                continue;
            }
            waiter.has_died();
            return last;
        }
    }
}

/// Changes the state, and wakes who sleeps at it.
pub fn give(state: &impl Word, value: u32, wake: impl FnOnce()) {
    // Release: partner is the acquire of who waits.
    state.store(value, Release);
    wake();
}

/// The child: asks for its maps, and waits until they are written. `sleep`: sleeps while the state
/// is this; `false`: nobody is left to write them.
pub fn until_mapped(
    state: &impl Word,
    wake: impl FnOnce(),
    mut sleep: impl FnMut(u32) -> bool,
) -> bool {
    give(state, MAPS, wake);
    // Acquire: the maps were written before. Partner: the library's `give`.
    while state.load(Acquire) == MAPS {
        if !sleep(MAPS) {
            return false;
        }
    }
    true
}
