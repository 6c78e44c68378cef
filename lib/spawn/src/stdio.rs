//! What a child's standard descriptors are.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pipe::{PipeFlags, pipe_with};

/// A standard stream, as `std::process::Stdio`.
#[derive(Debug)]
pub struct Stdio(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Inherit,
    Null,
    Closed,
    Piped,
    /// The caller's descriptor 1 or 2, whichever of the child's that becomes.
    Standard(RawFd),
    Given(OwnedFd),
}

impl Stdio {
    /// The caller's own.
    pub fn inherit() -> Stdio {
        Stdio(Kind::Inherit)
    }

    /// `/dev/null`.
    pub fn null() -> Stdio {
        Stdio(Kind::Null)
    }

    /// Not open: for who hands on what another program would get. The first file that the
    /// child opens has this number then.
    pub fn closed() -> Stdio {
        Stdio(Kind::Closed)
    }

    /// A pipe, whose other end is in [`Child`](crate::Child).
    pub fn piped() -> Stdio {
        Stdio(Kind::Piped)
    }
}

/// Conversions from owners of a descriptor: a blanket `impl` would leave no room for those of
/// `std::process::Stdio` below.
macro_rules! from_owners {
    ($($owner:ty),* $(,)?) => {$(
        impl From<$owner> for Stdio {
            fn from(owner: $owner) -> Stdio {
                Stdio(Kind::Given(owner.into()))
            }
        }
    )*};
}

from_owners!(
    OwnedFd,
    File,
    process::ChildStdin,
    process::ChildStdout,
    process::ChildStderr,
    std::net::TcpListener,
    std::net::TcpStream,
    std::net::UdpSocket,
    std::os::unix::net::UnixDatagram,
    std::os::unix::net::UnixListener,
    std::os::unix::net::UnixStream,
);

#[cfg(std_has_pipes)]
#[allow(clippy::incompatible_msrv, reason = "compiled where they are")]
mod pipes {
    use super::{Kind, Stdio, io};

    from_owners!(io::PipeReader, io::PipeWriter);
}

/// The caller's standard output, as whichever of the child's.
impl From<io::Stdout> for Stdio {
    fn from(_: io::Stdout) -> Stdio {
        Stdio(Kind::Standard(1))
    }
}

/// The caller's standard error, as whichever of the child's.
impl From<io::Stderr> for Stdio {
    fn from(_: io::Stderr) -> Stdio {
        Stdio(Kind::Standard(2))
    }
}

impl FromRawFd for Stdio {
    unsafe fn from_raw_fd(number: RawFd) -> Stdio {
        // SAFETY: the caller's promise.
        Stdio(Kind::Given(unsafe { OwnedFd::from_raw_fd(number) }))
    }
}

/// The child's end, and the caller's if it is a pipe.
pub(crate) struct Ends<'a> {
    pub(crate) theirs: Option<Theirs<'a>>,
    pub(crate) ours: Option<File>,
}

/// The child's end.
pub(crate) enum Theirs<'a> {
    Own(OwnedFd),
    Given(BorrowedFd<'a>),
    Caller(BorrowedFd<'static>),
}

impl AsFd for Theirs<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Theirs::Own(fd) => fd.as_fd(),
            Theirs::Given(fd) => *fd,
            Theirs::Caller(fd) => *fd,
        }
    }
}

impl Kind {
    /// Opens it as descriptor `number` of a child; that the caller has one to inherit is not said.
    pub(crate) fn open(&self, number: i32) -> io::Result<Ends<'_>> {
        let reads = number == 0;
        let own = |fd| Some(Theirs::Own(fd));
        Ok(match self {
            Kind::Inherit => {
                // SAFETY: the program's standard descriptors are there for all.
                let fd = unsafe { BorrowedFd::borrow_raw(number) };
                Ends { theirs: Some(Theirs::Caller(fd)), ours: None }
            }
            Kind::Null => {
                let flags = if reads { OFlags::RDONLY } else { OFlags::WRONLY };
                let null = openat(CWD, "/dev/null", flags | OFlags::CLOEXEC, Mode::empty())?;
                Ends { theirs: own(above(null)?), ours: None }
            }
            Kind::Closed => Ends { theirs: None, ours: None },
            Kind::Piped => {
                let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
                let (reader, writer) = (above(reader)?, above(writer)?);
                let (theirs, ours) = if reads { (reader, writer) } else { (writer, reader) };
                Ends { theirs: own(theirs), ours: Some(File::from(ours)) }
            }
            Kind::Standard(own) => {
                // SAFETY: as above.
                let fd = unsafe { BorrowedFd::borrow_raw(*own) };
                Ends { theirs: Some(Theirs::Given(fd)), ours: None }
            }
            Kind::Given(fd) => {
                debug_assert!(fd.as_raw_fd() >= 0);
                Ends { theirs: Some(Theirs::Given(fd.as_fd())), ours: None }
            }
        })
    }
}

/// Moves a descriptor above the standard ones: where one of them is closed a new one may get its
/// number, and would be taken for it.
pub(crate) fn above(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?)
}
