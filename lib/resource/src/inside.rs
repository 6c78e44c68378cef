//! Whether the calling thread is within an operation of the shared type.

use std::cell::Cell;

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// True if the calling thread is within an operation of some shared interface.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// The calling thread has locks: a second operation would wait for the same ones, or take
/// others in another order than somebody else does.
pub(crate) struct HasLocks(());

impl HasLocks {
    /// Begins an operation; `None` within another one.
    #[inline(always)]
    pub(crate) fn enter() -> Option<HasLocks> {
        (!IS_INSIDE.replace(true)).then(|| HasLocks(()))
    }
}

impl Drop for HasLocks {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}
