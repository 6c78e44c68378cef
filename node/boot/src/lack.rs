//! What a kernel's configuration lacks.

use std::fmt;

/// An option that is not as a node needs it.
#[derive(Debug, PartialEq, Eq)]
pub struct Lack {
    pub(crate) option: &'static str,
    pub(crate) set: bool,
    pub(crate) reason: &'static str,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, option) = (if self.set { "without" } else { "with" }, self.option);
        write!(f, "{verb} CONFIG_{option} ({})", self.reason)
    }
}
