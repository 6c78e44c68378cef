//! Resources of other machines by the same calls as one's own: a place behind a NATS server is
//! asked for program parts by their names, and each call runs once, or its caller is told that
//! it has not, or that nobody knows.
//!
//! ```text
//!  client ── create · call · each · destroy · open · ls · watch
//!    │        lease, serial, first unseen
//!    ▼
//!  nats-server            kumiki.place.hostb.core3       $SRV.PING|INFO|STATS
//!    ▼
//!  hostb.core3 ── allow-list ── program parts by name and version
//!    │             answers kept with the client's lease
//!    ▼
//!  the core's owner: its tables, and nobody else's
//! ```
//!
//! ```no_run
//! use kumiki_places::standard::{Add, Counter, parts};
//! use kumiki_places::{Allow, Client, Lease, Nats, Server};
//! use kumiki_resource::Interface;
//!
//! # async fn run() -> Result<(), kumiki_places::Error> {
//! // On machine hostb.
//! let interface = Interface::builder().kind::<Counter>().kind::<Lease>().per_core()?;
//! let server = Server::new(Nats::at("nats://127.0.0.1"), "hostb").parts(parts());
//! let _served = server.allow(Allow::everything()).serve(&interface)?;
//!
//! // On any other.
//! let client = Client::connect(&Nats::at("nats://127.0.0.1")).await?;
//! let hits = client.create::<Counter>("hostb.core0", Some("hits"), 41).await?;
//! assert_eq!(client.call::<Add>(&hits, 1).await?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! The protocol, who dies when, and what a partition does is in `docs/design/places.md`.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod absent;
mod allow;
mod allow_file;
mod attach;
mod batch;
mod batch_site;
mod blocked;
mod bundle;
mod busy;
mod changes;
mod choose;
mod client;
mod denied;
mod discover;
mod door;
mod each;
mod error;
mod greeting;
mod here;
mod identity;
mod json;
#[cfg(feature = "run")]
mod keep;
mod lane;
mod lane_stages;
mod lanes;
mod lease;
mod lease_site;
mod line;
mod line_site;
mod lines;
mod loads;
mod named;
mod nats;
mod near;
mod once;
mod part;
mod parts;
mod post;
mod relay;
mod remote;
mod rivals;
#[cfg(feature = "run")]
pub mod run;
mod scalar;
mod secret;
mod sending;
mod serve;
mod session;
mod site;
mod sockets;
pub mod standard;
mod stdio;
mod watch;
pub mod wire;

pub use allow::Allow;
pub use attach::{Attached, attach, attach_stdio};
pub use blocked::MOST_BLOCKED;
pub use client::{Client, caller_name};
pub use discover::Seen;
pub use error::{Error, Result};
pub use json::{from_json, to_json};
#[cfg(feature = "run")]
pub use keep::{Keeper, keep};
pub use lease::{
    Lease, LeasePool, MOST_BYTES, MOST_BYTES_OF_ONE, MOST_LEASES, MOST_RECORDS, MOST_UNUSED,
};
pub use line::Line;
pub use lines::Lines;
pub use loads::Choice;
pub use nats::Nats;
pub use part::{Block, Part, Portable, Run, Work};
pub use parts::Parts;
pub use relay::{relay, relay_stdio};
pub use remote::Remote;
pub use serve::{Served, Server, host_name};
pub use watch::{News, Watch};
