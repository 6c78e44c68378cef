//! The host and what nodes have of it: cpus, memory, devices' places, and the record of each
//! node.

pub(crate) mod claims;
pub(crate) mod clocks;
pub(crate) mod cpus;
pub(crate) mod device;
pub(crate) mod grant;
pub(crate) mod identity;
pub(crate) mod pci;
pub(crate) mod record;
pub(crate) mod reservation;
pub(crate) mod spec;
pub(crate) mod stowed;
