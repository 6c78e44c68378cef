//! What a model checker replaces.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU32;
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU32;
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Locks it, whatever has happened to a former owner: no data here is left half changed
/// where a panic could come.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
