//! A lease, as its client has it.

use crate::wire::Granted;

/// A lease, as its client has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub granted: Granted,
    pub key: u64,
}
