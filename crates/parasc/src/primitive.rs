//! What the protocol is built from. Under `cfg(loom)` loom's doubles take the
//! place of the real things, and the model checker runs the very same protocol.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
