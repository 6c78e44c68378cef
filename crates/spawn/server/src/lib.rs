//! The spawn server: makes processes whose parent is not it but the one who asks.
//!
//! It is so small that a child by clone3 costs the least that the kernel can do, however
//! large the process is for which it works. No C library, no heap: a stack, the memory
//! that it shares (`kumiki-spawn-wire`), and a message for each request.
//!
//! `src/main.rs` is what a program without a C library has to bring, `build.rs` of kumiki-spawn
//! makes it, and kumiki-spawn carries it along and starts it.
#![no_std]

#[cfg(test)]
extern crate std;

mod asker;
mod held;
mod limits;
mod received;
mod serve;

pub use serve::serve;
