//! Memory behind a descriptor, sealed at its size and not mapped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use super::Huge;
use crate::error::{Error, Result};

/// The kernel counts the ending zero and a prefix of its own (`MFD_NAME_MAX_LEN`,
/// mm/memfd.c).
const LONGEST_NAME: usize = 249;

/// A memfd that cannot shrink or grow: no process can take memory away from another one,
/// which would die of SIGBUS at its next access.
#[derive(Debug)]
pub struct Sealed {
    fd: OwnedFd,
    len: usize,
}

impl Sealed {
    /// `len` bytes of zeros, rounded up to whole pages. The name is for people, in
    /// `/proc/PID/maps` and `/proc/PID/fd`. The descriptor is closed at exec.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a length of 0 or a name that is too long or has
    /// a zero byte; [`Error::Unsupported`] if the pool of huge pages is
    /// exhausted; [`Error::Os`] if memory or descriptors are.
    pub fn new(name: &str, len: usize, huge: Huge) -> Result<Self> {
        let len = huge.whole_pages(len)?;
        let flags = MemfdFlags::ALLOW_SEALING
            | match huge {
                Huge::Size2M => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
                Huge::Size1G => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
                Huge::Policy | Huge::Never | Huge::Transparent => MemfdFlags::empty(),
            };
        let what = || format!("shared memory {name:?} of {len} bytes");
        let refusal = |errno| huge.refusal(what(), len, errno);
        let fd = named(name, flags)?.map_err(refusal)?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(refusal)?;
        rustix::fs::fcntl_add_seals(&fd, fixed_size() | SealFlags::SEAL).map_err(refusal)?;
        Ok(Sealed { fd, len })
    }

    /// The memory behind a descriptor that another process made by [`new`](Self::new).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the descriptor is not sealed at its size: it is
    /// something else, and could shrink under us.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let foreign = |why: String| {
            Error::Invalid(format!(
                "the descriptor is not Kumiki's shared memory ({why}): pass that of Shared::fd"
            ))
        };
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|errno| foreign(format!("it has no seals, {errno}")))?;
        if !seals.contains(fixed_size()) {
            return Err(foreign("its size is not sealed".to_owned()));
        }
        let stat = rustix::fs::fstat(&fd).map_err(|errno| foreign(errno.to_string()))?;
        match usize::try_from(stat.st_size).unwrap_or(0) {
            0 => Err(foreign("it is empty".to_owned())),
            len => Ok(Sealed { fd, len }),
        }
    }

    /// A file in memory that its owner alone grows: empty, and without seals.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn unsized_file(name: &str) -> Result<OwnedFd> {
        let what = || format!("a file in memory {name:?}");
        named(name, MemfdFlags::empty())?.map_err(|errno| Error::os(what(), errno))
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The descriptor, which is closed at exec: send it over a UNIX socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn named(name: &str, flags: MemfdFlags) -> Result<Result<OwnedFd, Errno>> {
    if name.len() > LONGEST_NAME || name.contains('\0') {
        return Err(Error::Invalid(format!(
            "{name:?} cannot name shared memory: at most {LONGEST_NAME} bytes, none of them 0"
        )));
    }
    let flags = flags | MemfdFlags::CLOEXEC;
    // Memory that nobody will execute, which hardened systems insist on
    // (`vm.memfd_noexec`); kernels before 6.3 do not know the flag.
    Ok(match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        outcome => outcome,
    })
}

fn fixed_size() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW
}
