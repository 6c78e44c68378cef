//! The two types of the paper: what one core owns needs no lock, what all share does.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;

/// How a place's tables are kept from being used twice at the same time.
pub(crate) trait Guard: 'static {
    /// A value behind the guard.
    type Of<T>;
    /// As long as it lives, the calling thread is within an operation.
    type Inside;
    fn new<T>(value: T) -> Self::Of<T>;
    /// Begins an operation; `None` if that could wait for itself, or for another thread
    /// that waits for this one.
    fn enter() -> Option<Self::Inside>;
    /// Runs `f` on it, alone; `None` if the calling thread is at it already.
    fn with<T, R>(of: &Self::Of<T>, f: impl FnOnce(&mut T) -> R) -> Option<R>;
    /// The value for whoever has all of it, also after a thread died while it was at it.
    fn all<T>(of: &mut Self::Of<T>) -> &mut T;
}

/// Per core: one thread has it, so that asking is enough.
pub(crate) enum Owned {}

impl Guard for Owned {
    type Of<T> = RefCell<T>;
    type Inside = ();

    fn new<T>(value: T) -> RefCell<T> {
        RefCell::new(value)
    }

    /// Which of its tables are in use `with` finds out.
    #[inline(always)]
    fn enter() -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn with<T, R>(of: &RefCell<T>, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        of.try_borrow_mut().ok().map(|mut value| f(&mut value))
    }

    fn all<T>(of: &mut RefCell<T>) -> &mut T {
        of.get_mut()
    }
}

/// Shared: a lock each.
pub(crate) enum Locked {}

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is within an operation of some shared interface.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// The calling thread has locks: a second operation would wait for the same ones, or take
/// others in another order than somebody else does.
pub(crate) struct HasLocks(());

impl Drop for HasLocks {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

impl Guard for Locked {
    type Of<T> = Mutex<T>;
    type Inside = HasLocks;

    fn new<T>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    #[inline(always)]
    fn enter() -> Option<HasLocks> {
        (!IS_INSIDE.replace(true)).then(|| HasLocks(()))
    }

    #[inline(always)]
    fn with<T, R>(of: &Mutex<T>, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        // A program part that panics leaves its table as it is, here as per core.
        Some(f(&mut of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
    }

    fn all<T>(of: &mut Mutex<T>) -> &mut T {
        of.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
