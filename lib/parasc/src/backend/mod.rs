//! Who makes the calls of a batch, beside the requesting thread: two backends
//! behind one interface.
//!
//! | backend | who | needs |
//! |---|---|---|
//! | `user` | processing threads of this process | nothing |
//! | `kernel` | the same threads, inside a kernel module | the module, loaded |
//!
//! Both serve the same requests with the same results. `user` is always
//! there, and what the other cannot do falls back to it.

mod availability;
mod direct;
mod inside;
mod lack;
mod refusal;

pub use availability::{Availability, availability};
pub use direct::{Await, Direct};
#[cfg(all(test, not(loom)))]
pub(crate) use inside::tests::LAYOUT;
pub(crate) use inside::{Inside, Return, Stay};
use lack::Lack;

pub use crate::choice::Backend;

impl Backend {
    /// Error for which an engine cannot have it.
    pub(crate) fn lacks(self, lack: Lack) -> crate::Error {
        crate::Error::Backend { backend: self, reason: lack.reason, remedy: lack.remedy }
    }

    /// The kernel module, if this backend has one.
    ///
    /// # Errors
    /// [`Error::Backend`](crate::Error::Backend) with the reason why it cannot be had.
    pub(crate) fn inside(self) -> crate::Result<Option<Inside>> {
        let wanted = (self == Backend::Kernel).then(Inside::open);
        wanted.transpose().map_err(|lack| self.lacks(lack))
    }
}
