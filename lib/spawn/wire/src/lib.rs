//! What library and spawn server share: the request in memory that both see, the bell by which
//! the server is woken, and the child, which either of them makes.
//!
//! ```text
//!  kumiki-spawn ──── request, bell ────▶ kumiki-spawn-server
//!       │                                     │
//!       └──────────────▶ child ◀──────────────┘   its steps, on descriptors by places
//! ```
//!
//! There is no C library here: the server has none, and a child that begins in its maker's memory
//! must not touch the state of that. `build.rs` of kumiki-spawn compiles this once more, for the
//! server; so it depends on nothing.
//!
//! ```
//! use kumiki_spawn_wire::{BYTES, DATA, Header};
//!
//! // The header stands before what a request has of strings, steps and pointers.
//! assert!(size_of::<Header>() <= DATA && DATA < BYTES);
//! ```
#![warn(missing_debug_implementations)]
#![no_std]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "kumiki-spawn needs Linux on x86-64 or aarch64: its server makes system calls itself."
);

pub mod answer;
pub mod bell;
pub mod child;
pub mod places;
mod request;
pub mod sys;
pub mod table;
mod word;

pub use request::*;
pub use word::Word;
