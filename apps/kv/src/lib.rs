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
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_debug_implementations)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod alone;
pub mod args;
pub mod batch;
pub mod clients;
mod clock;
pub mod commands;
pub mod connection;
pub mod counters;
pub mod desk;
pub mod dispatch;
#[cfg(test)]
mod dying;
pub mod follow;
mod info;
pub mod jobs;
pub mod kept;
mod listen;
mod merge;
mod metrics;
mod password;
mod room;
mod say;
pub mod server;
pub mod session;
pub mod shard;
pub mod shared;
mod spell;
pub mod store;
pub mod tracking;
pub mod transaction;
mod worker;

#[doc(no_inline)]
pub use kumiki_kv_resp as resp;
