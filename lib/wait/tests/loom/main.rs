//! The protocols between sleepers and wakers under every interleaving and every
//! reordering that the memory model allows: `cargo xtask loom`. A lost wake-up
//! is a deadlock there, which loom reports with the way to it.
#![cfg(loom)]

mod bell;
mod capacity;
mod event_count;
mod poll_bell;
