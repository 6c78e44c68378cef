//! What a model checker replaces, and a machine of lines.

#[cfg(not(any(loom, sim)))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(sim)]
pub(crate) use kumiki_sys::sim::atomic::{AtomicU64, Ordering};
