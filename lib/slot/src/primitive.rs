//! What a model checker replaces, and a machine of lines.

#[cfg(not(any(loom, sim)))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(sim)]
pub(crate) use kumiki_sys::sim::{
    atomic::{AtomicU64, Ordering},
    fence,
};

/// Says that `value` is written, or read, by other means than an atomic's.
#[cfg_attr(not(sim), allow(unused_variables, reason = "only a machine of lines asks"))]
#[inline(always)]
#[track_caller]
pub(crate) fn touch<T>(value: *const T, writes: bool) {
    #[cfg(sim)]
    {
        use kumiki_sys::sim::{Access, touch};
        touch(value, size_of::<T>(), if writes { Access::Store } else { Access::Load });
    }
}
