//! A library that stands in front of the C library's calls on folders and files (`LD_PRELOAD`) and asks
//! ahead: what the program will look up next is looked up by other threads, in the kernel's own memory.
//! The program makes all its calls itself and gets the kernel's answers, only sooner.
//!
//! ```text
//!   the program's thread                      threads of the pool, with descriptors of their own
//!   opendir ──► hooks ──► libc                    ┌──────────────────────────────────────┐
//!                 │ quiet: is one folder of 64    │ walk: folders listed, names to ask,  │
//!                 │ cold? (probe)                 │ in the order in which they stand     │
//!                 │ active: inbox ───────────────►│   │ list: openat2, getdents          │
//!   lstat, open ► hooks ──► libc                  │   │ ask: statx; open, readahead      │
//!                 │ which name was that? (table)  │   ▼                                  │
//!                 └──► demand: what this program ◄┴── table: names listed and asked      │
//!                      does with names that are   └──────────────────────────────────────┘
//!                      listed decides what is asked
//! ```
//!
//! How each file keeps to what the library promises stands at its head; the whole is in `docs/ahead.md`.

// Tests are no program that it stands in front of: the hooks, by which all of it is reached, are left out.
#![cfg_attr(test, allow(dead_code))]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("files' attributes have one form on 64 bits, two on 32: build it for 64");

mod clock;
mod counts;
mod demand;
mod errno;
mod folder;
mod heap;
#[cfg(not(test))]
mod hooks;
mod inbox;
mod kept;
mod life;
mod names;
mod pool;
mod primitive;
mod probe;
mod real;
mod room;
mod settings;
mod shared;
mod signals;
mod state;
mod table;
mod text;
mod threads;
mod trial;
mod unlisted;
mod unnumbered;
mod unnumbered_listings;
#[cfg(not(test))]
mod unwind;
mod uses;
mod walk;
mod watch;
mod worth;
