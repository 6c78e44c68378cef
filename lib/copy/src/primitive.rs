//! What a model checker replaces, and a machine of lines.

#[cfg(not(any(loom, sim)))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};

#[cfg(sim)]
pub(crate) use kumiki_sys::sim::{
    atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    spin_loop,
};
