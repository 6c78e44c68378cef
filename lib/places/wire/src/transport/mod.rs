//! The ways to a place: a NATS server, a connection of its own, sockets of this machine, and a stream to another kernel.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod absent;
pub mod bundle;
pub mod denied;
pub mod direct;
pub mod door;
pub mod identity;
pub mod memory;
pub mod nats;
pub mod near;
pub mod passed;
pub mod permission;
pub mod rivals;
pub mod secret;
pub mod sockets;
pub mod stdio;
