//! What the protocol is built from. Under `cfg(loom)` loom's doubles take the
//! place of the real things, and the model checker runs the very same protocol; under `cfg(sim)`
//! those of a machine of lines do.

use std::time::{Duration, Instant};

#[cfg(sim)]
pub(crate) use kumiki_sys::sim::{
    atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize},
    fence,
    lock::{Mutex, MutexGuard},
};
#[cfg(not(any(loom, sim)))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, fence,
};
#[cfg(not(any(loom, sim)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// A full fence just after a swap. On x86-64, all that this crate is for, the swap is one
/// itself (Intel SDM volume 3A, "Memory Ordering": nothing is reordered with a locked
/// instruction), so that only the compiler has to be told.
#[inline(always)]
pub(crate) fn fence_after_swap() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(loom)]
    fence(std::sync::atomic::Ordering::SeqCst);
}

/// Locks it, whatever has happened to a former owner: no data of ours is left
/// half changed where a panic could come.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A moment that far from now; one beyond what the clock can tell is never.
pub(crate) fn after(duration: Duration) -> Instant {
    /// Ten years.
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    Instant::now() + duration.min(NEVER)
}
