//! The ways to a place: a NATS server, sockets of this machine, and a stream to another kernel.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub(crate) mod bundle;
pub(crate) mod denied;
pub(crate) mod door;
pub(crate) mod identity;
pub(crate) mod memory;
pub(crate) mod nats;
pub(crate) mod near;
pub(crate) mod passed;
pub(crate) mod secret;
pub(crate) mod sockets;
pub(crate) mod stdio;
