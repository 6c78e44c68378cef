//! The host and what nodes have of it: cpus, memory, and what makes a machine the same one.

pub(crate) mod cpus;
pub(crate) mod identity;
pub(crate) mod process;
pub(crate) mod reservation;
pub(crate) mod spec;
pub(crate) mod watchmen;
