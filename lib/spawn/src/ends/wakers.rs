//! Wakers of who waits for descriptors, by the numbers of those. `wakers/loom.rs` runs this under
//! every interleaving.
//!
//! ```text
//! who waits                            the thread that wakes
//!  waker into the table                 sleeps in the epoll
//!  descriptor armed for one event ────▶ has the event: the descriptor is armed no more
//!  wakes, looks, and waits again ◀───── waker out of the table, and woken
//! ```
//!
//! The waker is there before its descriptor is armed, so each event of that finds it. A descriptor
//! that is readable already tells at once. An event on its way may be of who had the number before:
//! it takes the waker of who has it now, who looks too early, and has the descriptor armed again. So
//! somebody may be woken too often, and nobody never.

#[cfg(all(test, loom))]
mod loom;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::task::Waker;

use crate::primitive::{Mutex, MutexGuard};

/// The table. A waker is cloned, dropped and woken outside of its lock: what that does is not known
/// here, and may come back.
#[derive(Debug, Default)]
pub(super) struct Wakers(Mutex<HashMap<u64, Waker>>);

impl Wakers {
    /// Has `waker` woken at the next event of the descriptor that `arm` arms for one.
    ///
    /// # Errors
    /// That of `arm`: then it is not woken.
    pub(super) fn watch<E>(
        &self,
        number: u64,
        waker: &Waker,
        arm: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let waker = waker.clone();
        let former = self.table().insert(number, waker);
        drop(former);
        arm().inspect_err(|_| self.forget(number))
    }

    /// Wakes nobody for that number any more.
    pub(super) fn forget(&self, number: u64) {
        let waker = self.table().remove(&number);
        drop(waker);
    }

    /// Wakes who waits for an event of that number: there was one.
    pub(super) fn tell(&self, number: u64) {
        let waker = self.table().remove(&number);
        // One that panics is not to end the thread that wakes all others.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.into_iter().for_each(Waker::wake)));
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
