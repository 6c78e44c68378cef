//! What the clients of `kumiki-places` and its places share: messages and errors, the ways that messages go, lines
//! in memory that both see, places of another kernel, and the files of a place that outlives its process.
//!
//! ```text
//!   wire: messages, scalars, beats, changes, lanes        part, reference, error: what both sides name
//!      |                      |                  \
//!   transport:             line: a caller's       durable: records and snapshots
//!   NATS, sockets,         lane, in memory
//!   memory, stdio             |
//!      |                      |
//!   relay: places of another kernel, by one stream     lease: what a place keeps for a client,
//!                                                      and a client of a place
//! ```
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod durable;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod lease;
#[doc(hidden)]
pub mod line;
#[doc(hidden)]
pub mod part;
#[doc(hidden)]
pub mod reference;
#[doc(hidden)]
pub mod refused;
#[doc(hidden)]
pub mod relay;
#[doc(hidden)]
pub mod transport;
pub mod wire;

pub use error::{Error, FailedStep, Result};
