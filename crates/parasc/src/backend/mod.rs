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

use std::fmt;

pub use availability::{Availability, availability};
pub(crate) use kernel::{Device, LOOK};
pub(crate) use own_ring::OwnRing;

/// Which backend an [`Engine`](crate::Engine) uses ([`Config::backend`](crate::Config)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// What suits almost everybody: [`User`](Self::User).
    #[default]
    Auto,
    /// Processing threads only. Each call goes through the seccomp filter that the
    /// caller had when these were started, and is seen by strace. A filter that one
    /// thread sets for itself later does not see its requests: see the
    /// [crate](crate#another-thread-makes-the-call).
    User,
    /// io_uring for every batch (of two calls or more) that it can make, the
    /// rest as with [`User`](Self::User). Seccomp filters see io_uring_enter(2)
    /// only.
    IoUring,
    /// Processing threads that serve from inside the kernel module
    /// `kumiki-parasc`.
    Kernel,
}

impl Backend {
    /// Its name: `auto`, `user`, `io_uring`, `kernel`.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Auto => "auto",
            Backend::User => "user",
            Backend::IoUring => "io_uring",
            Backend::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

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
