//! Who makes the calls of a batch, beside the requesting thread: three backends
//! behind one interface.
//!
//! | backend | who | needs |
//! |---|---|---|
//! | `user` | processing threads of this process | nothing |
//! | `io_uring` | the kernel's io_uring, for the calls that it has | a kernel and a sandbox that allow it |
//! | `kernel` | the same threads, inside a kernel module | the module |
//!
//! All of them serve the same requests with the same results. `user` is always
//! there, and what the others cannot do falls back to it.

mod availability;
pub(crate) mod kernel;
mod own_ring;

#[cfg(feature = "io-uring")]
mod ring;
#[cfg(not(feature = "io-uring"))]
#[path = "no_ring.rs"]
mod ring;

pub use availability::{Availability, availability};
pub(crate) use kernel::{Device, LOOK};
pub(crate) use own_ring::OwnRing;

pub use crate::choice::Backend;

/// Why a backend is not there, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Lack {
    fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Lack { reason: reason.into(), remedy: remedy.into() }
    }

    pub(crate) fn error(self, backend: Backend) -> crate::Error {
        crate::Error::Backend { backend, reason: self.reason, remedy: self.remedy }
    }
}
