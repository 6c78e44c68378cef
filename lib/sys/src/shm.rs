//! Memory that several processes write ([`Shared`], and [`Sealed`] before it is mapped), or
//! several kernels ([`Window`]), and large private memory ([`Anon`]).
//!
//! Neither ever gives out a `&[u8]` or a `&T`: a reference promises that nobody else
//! writes, and other processes do. They offer raw pointers and atomics, which make no
//! such promise.

mod anon;
mod mapping;
mod sealed;
mod shared;
mod window;

pub use anon::{Anon, Populate};
pub use mapping::Mapping;
pub use sealed::Sealed;
pub use shared::Shared;
pub use window::{Window, Words};

use rustix::io::Errno;

use crate::error::Error;

/// Size of the pages behind a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Huge {
    /// Pages by the machine's policy for transparent huge pages.
    #[default]
    Policy,
    /// The smallest (4 KiB on x86-64), whatever the policy.
    Never,
    /// Transparent huge pages wherever the kernel finds one (`MADV_HUGEPAGE`).
    Transparent,
    /// 2 MiB pages from the reserved pool.
    Size2M,
    /// 1 GiB pages from the reserved pool.
    Size1G,
}

impl Huge {
    /// Bytes of a page that a mapping is made of.
    pub fn page_bytes(self) -> usize {
        match self {
            Huge::Size2M => 2 << 20,
            Huge::Size1G => 1 << 30,
            Huge::Policy | Huge::Never | Huge::Transparent => rustix::param::page_size(),
        }
    }

    /// `len` rounded up to whole pages.
    fn whole_pages(self, len: usize) -> Result<usize, Error> {
        let rounded = len.checked_next_multiple_of(self.page_bytes());
        rounded.filter(|&len| len > 0 && len <= isize::MAX as usize).ok_or_else(|| {
            Error::Invalid(format!(
                "a mapping of {len} bytes is not possible: choose from 1 to {} bytes",
                isize::MAX
            ))
        })
    }

    /// Reason for which the kernel refused a mapping of `len` bytes of such pages.
    fn refusal(self, what: String, len: usize, errno: Errno) -> Error {
        let pool = match self {
            Huge::Size2M => "2048kB",
            Huge::Size1G => "1048576kB",
            Huge::Policy | Huge::Never | Huge::Transparent => return Error::os(what, errno),
        };
        let pages = len / self.page_bytes();
        Error::unsupported(
            format!("{what} of {pages} huge pages of {pool} ({errno})"),
            format!(
                "as many free ones in the pool: \
                 echo {pages} > /sys/kernel/mm/hugepages/hugepages-{pool}/nr_hugepages"
            ),
        )
    }
}
