//! Who makes the calls of a batch, beside the requesting thread: three backends
//! behind one interface.
//!
//! | backend | who | needs |
//! |---|---|---|
//! | `user` | processing threads of this process | nothing |
//! | `io_uring` | the kernel's io_uring, for the calls that it has | a kernel and a sandbox that allow it |
//! | `kernel` | the same threads, inside a kernel module | the module, loaded |
//!
//! All of them serve the same requests with the same results. `user` is always
//! there, and what the others cannot do falls back to it.

mod availability;
mod direct;
mod inside;
mod refusal;

pub use availability::{Availability, availability};
pub use direct::{Await, Direct};
#[cfg(all(test, not(loom)))]
pub(crate) use inside::LAYOUT;
pub(crate) use inside::{Inside, Return, Stay};
pub(crate) use kumiki_ring::{Lack, OwnRing};

pub use crate::choice::Backend;

/// Requests that a ring takes at once; a longer batch goes in several steps.
const AT_ONCE: usize = 512;

impl Backend {
    /// Error for which an engine cannot have it.
    pub(crate) fn lacks(self, lack: Lack) -> crate::Error {
        crate::Error::Backend { backend: self, reason: lack.reason, remedy: lack.remedy }
    }

    /// Checks that an engine of this configuration can have it.
    ///
    /// # Errors
    /// [`Error::Backend`](crate::Error::Backend) with the reason.
    pub(crate) fn check(self, help: bool) -> crate::Result<()> {
        if self == Backend::IoUring && !help {
            return Err(self.lacks(Lack::new(
                "Config::help = false leaves all calls to processing threads, and io_uring makes \
                 most of them on the caller's",
                "choose one of the two",
            )));
        }
        self.ring().map(drop)
    }

    /// The kernel module, if this backend has one.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub(crate) fn inside(self) -> crate::Result<Option<Inside>> {
        let wanted = (self == Backend::Kernel).then(Inside::open);
        wanted.transpose().map_err(|lack| self.lacks(lack))
    }

    /// The calling thread's ring, if this backend has one.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub(crate) fn ring(self) -> crate::Result<Option<OwnRing>> {
        let wanted = (self == Backend::IoUring).then(|| OwnRing::new(AT_ONCE));
        wanted.transpose().map_err(|lack| self.lacks(lack))
    }
}
