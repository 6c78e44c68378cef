//! The spawn server: makes processes whose parent is not it but the one who asks.
//!
//! It is so small that a child by clone3 costs the least that the kernel can do, however
//! large the process is for which it works. No C library, no heap: a stack, the memory
//! that it shares (`kumiki-spawn-wire`), and a message for each request.
//!
//! `build.rs` of kumiki-spawn makes the program (`src/start.rs`, `src/mem.rs`), and kumiki-spawn
//! carries it along and starts it.
#![no_std]
#![cfg_attr(freestanding, no_main)]

#[cfg(test)]
extern crate std;

mod asker;
mod held;
mod limits;
#[cfg(any(freestanding, test))]
mod mem;
mod received;
mod serve;
mod start;

pub use serve::serve;
