//! What a model checker replaces, and a machine of lines.

#[cfg(not(any(loom, sim)))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(sim))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicUsize},
    thread::yield_now,
};

#[cfg(sim)]
pub(crate) use kumiki_sys::sim::{
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    now, spin_loop, yield_now,
};

#[cfg(not(sim))]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Comes after a look that has found nothing and is followed by the next one at once.
#[inline(always)]
pub(crate) fn look_again() {
    #[cfg(sim)]
    spin_loop();
}
