//! Programs in a node: the agent, which is its init or a service of it, and the start of
//! another node from there.

pub mod agent;
pub(crate) mod lent;
