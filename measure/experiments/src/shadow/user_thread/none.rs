//! C libraries without contexts, as musl: there is no such thread.

use std::convert::Infallible;

use kumiki_measure::{Error, Result};

/// No value of this type exists.
pub(super) struct UserThread(Infallible);

impl UserThread {
    pub(super) fn new() -> Result<Self> {
        Err(Error::unsupported(
            "makecontext(3)",
            "a program with glibc: this one's C library lacks it",
        ))
    }

    pub(super) fn null(&mut self) -> Result<()> {
        match self.0 {}
    }
}
