//! What a child's standard descriptors are.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

/// As `std::process::Stdio`.
#[derive(Debug)]
pub struct Stdio(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Inherit,
    Null,
    Closed,
    Piped,
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

impl<T: Into<OwnedFd>> From<T> for Stdio {
    fn from(descriptor: T) -> Stdio {
        Stdio(Kind::Given(descriptor.into()))
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
                let null = rustix::fs::open("/dev/null", flags | OFlags::CLOEXEC, Mode::empty())?;
                Ends { theirs: own(above(null)?), ours: None }
            }
            Kind::Closed => Ends { theirs: None, ours: None },
            Kind::Piped => {
                let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
                let (reader, writer) = (above(reader)?, above(writer)?);
                let (theirs, ours) = if reads { (reader, writer) } else { (writer, reader) };
                Ends { theirs: own(theirs), ours: Some(File::from(ours)) }
            }
            Kind::Given(fd) => {
                debug_assert!(fd.as_raw_fd() >= 0);
                Ends { theirs: Some(Theirs::Given(fd.as_fd())), ours: None }
            }
        })
    }
}

/// Where a standard descriptor is closed a new one may get its number, and would be taken for
/// it: so it gets another one.
pub(crate) fn above(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?)
}
