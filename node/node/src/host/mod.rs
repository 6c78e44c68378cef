//! The host and what nodes have of it: cpus, memory, and what makes a machine the same one.

pub(crate) mod cpus;
pub(crate) mod spec;
#[cfg(test)]
mod telling;
