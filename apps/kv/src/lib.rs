//! A key-value server that speaks RESP, on top of `kumiki-resource`: each core owns a shard of
//! the keys, which nobody else touches, so that there is no lock and no shared table.
//!
//! ```text
//!  core0                            core1
//!  worker: epoll, its connections   worker: epoll, its connections
//!    │ own keys: a function call      │
//!    ▼        ╲ others': one request a batch ╱
//!  shard 0     ╲──────────────────▶ shard 1
//! ```
//!
//! What one connection has sent at once is one batch a shard; answers go back in its order.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod command;
pub mod connection;
pub mod resp;
pub mod shard;
pub mod worker;

use kumiki_resource::PageAlloc;

// Values of about a page, and buffers, are pages of the core that got them.
#[global_allocator]
static ALLOCATOR: PageAlloc = PageAlloc::SYSTEM;
