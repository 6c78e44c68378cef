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
//! A program that uses resources here and there has one [`Control`] for all of them, and one kind of [`Reference`].
//!
//! The protocol, who dies when, and what a partition does is in `docs/design/places.md`.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod control;
mod place;

use kumiki_places_wire::{error, lease, line, part, reference, refused, relay, transport};

pub use kumiki_places_wire::{durable, wire};

pub use client::bound::NamedBinding;
pub use client::discover::Seen;
pub use client::loads::Choice;
pub use client::news::{News, Watch};
#[cfg(feature = "run")]
pub use client::program;
pub use client::{Client, caller_name};
pub use control::binding::Binding;
pub use control::chain::Chain;
pub use control::started::StartedCall;
pub use control::watch::PlaceNews;
pub use control::{Builder, Control};
pub use kumiki_places_wire::wire::busy::Figures;
pub use kumiki_places_wire::{Error, FailedStep, Result};
pub use lease::{
    Lease, LeasePool, MOST_BLOCKED, MOST_BYTES, MOST_BYTES_OF_ONE, MOST_LEASES, MOST_RECORDS,
    MOST_UNUSED,
};
pub use line::Line;
pub use line::lines::Lines;
pub use part::{Block, Durable, Part, Portable, Run, Work};
pub use place::allow::Allow;

#[cfg(feature = "run")]
pub use place::keep::{Keeper, keep};
pub use place::keeping::Restored;
pub use place::parts::Parts;
#[cfg(feature = "run")]
pub use place::run;
pub use place::serve::{Served, Server};
pub use place::standard;
pub use reference::Reference;
pub use relay::attach::{Attached, attach, attach_stdio};
pub use relay::{relay, relay_stdio};

/// The name that [`Reference`] had while resources of this process had another one; it goes with the next version.
pub type Remote<K> = Reference<K>;

pub use transport::nats::Nats;
pub use transport::secret::Secret;
pub use wire::host::host_name;
pub use wire::json::{from_json, to_json};
