//! What carries bytes or datagrams through file descriptors: pipes, UNIX
//! sockets, TCP and UDP over the loopback.
//!
//! All of them are read and written with read(2) and write(2). The measuring
//! process keeps the peer's descriptors open, too: so a peer's end never shows
//! as `SIGPIPE` or end of file, and is always found in the same way (see
//! [`peer`](super::peer)).

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::caller::Caller;
use super::transport::{Direction, Transport, Window};
use kumiki_measure::error::{Error, Result};

/// Kind of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Two pipes.
    Pipe,
    /// socketpair(2), `SOCK_STREAM`.
    UnixStream,
    /// socketpair(2), `SOCK_DGRAM`.
    UnixDatagram,
    /// socketpair(2), `SOCK_SEQPACKET`.
    UnixSeqpacket,
    /// 127.0.0.1, `TCP_NODELAY`.
    Tcp,
    /// 127.0.0.1, connected.
    Udp,
}

/// The largest payload of an IPv4 UDP datagram: 65535 less two headers.
const LARGEST_UDP: u64 = 65_507;

/// Bytes of a UNIX socket's send buffer that the kernel keeps for itself (`unix_dgram_sendmsg`,
/// net/unix/af_unix.c).
const UNIX_RESERVE: u64 = 32;

/// The four ends. Of a socket, reading and writing end are the same descriptor.
pub(super) enum Link {
    /// Read and write end, each way.
    Pipes { there: (OwnedFd, OwnedFd), back: (OwnedFd, OwnedFd) },
    /// Ours and the peer's.
    Sockets { ours: OwnedFd, theirs: OwnedFd },
}

impl Link {
    /// Opens one for messages of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a datagram cannot be that large.
    pub(super) fn open(kind: Kind, bytes: u64) -> Result<Self> {
        let (ours, theirs): (OwnedFd, OwnedFd) = match kind {
            Kind::Pipe => {
                let pipe =
                    || pipe_with(PipeFlags::CLOEXEC).map_err(|e| Error::os("make a pipe", e));
                return Ok(Link::Pipes { there: pipe()?, back: pipe()? });
            }
            Kind::UnixStream => {
                let pair =
                    UnixStream::pair().map_err(|e| Error::os("make a UNIX stream pair", e))?;
                (pair.0.into(), pair.1.into())
            }
            Kind::UnixDatagram => {
                let pair =
                    UnixDatagram::pair().map_err(|e| Error::os("make a UNIX datagram pair", e))?;
                (pair.0.into(), pair.1.into())
            }
            Kind::UnixSeqpacket => {
                let flags = SocketFlags::CLOEXEC;
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                    .map_err(|e| Error::os("make a UNIX seqpacket pair", e))?
            }
            Kind::Tcp => tcp().map_err(|e| Error::os("connect TCP over 127.0.0.1", e))?,
            Kind::Udp => udp().map_err(|e| Error::os("connect UDP over 127.0.0.1", e))?,
        };
        let limit = match kind {
            Kind::UnixDatagram | Kind::UnixSeqpacket => {
                let buffer = rustix::net::sockopt::socket_send_buffer_size(&ours)
                    .map_err(|e| Error::os("read SO_SNDBUF", e))?;
                Some((buffer as u64 - UNIX_RESERVE, "net.core.wmem_default"))
            }
            Kind::Udp => Some((LARGEST_UDP, "the IPv4 header")),
            _ => None,
        };
        match limit {
            Some((limit, whose)) if bytes > limit => Err(Error::unsupported(
                format!("a datagram of {bytes} bytes"),
                format!("{whose} allows {limit}; choose a smaller size"),
            )),
            _ => Ok(Link::Sockets { ours, theirs }),
        }
    }

    /// Number of messages that may be under way.
    pub(super) fn window(kind: Kind, bytes: u64) -> Window {
        match kind {
            // Twice this number, counted as the kernel does (whole pages or
            // powers of two, and its own book-keeping), stays below the usual
            // receive buffer of 208 KiB.
            Kind::Udp => Window::Messages(
                (65_536 / bytes.saturating_mul(2).saturating_add(1024)).max(1) as u32,
            ),
            _ => Window::Unlimited,
        }
    }

    fn writer(&self, way: Direction) -> BorrowedFd<'_> {
        match (self, way) {
            (Link::Pipes { there, .. }, Direction::There) => there.1.as_fd(),
            (Link::Pipes { back, .. }, Direction::Back) => back.1.as_fd(),
            (Link::Sockets { ours, .. }, Direction::There) => ours.as_fd(),
            (Link::Sockets { theirs, .. }, Direction::Back) => theirs.as_fd(),
        }
    }

    fn reader(&self, way: Direction) -> BorrowedFd<'_> {
        match (self, way) {
            (Link::Pipes { there, .. }, Direction::There) => there.0.as_fd(),
            (Link::Pipes { back, .. }, Direction::Back) => back.0.as_fd(),
            (Link::Sockets { theirs, .. }, Direction::There) => theirs.as_fd(),
            (Link::Sockets { ours, .. }, Direction::Back) => ours.as_fd(),
        }
    }
}

impl Transport for Link {
    #[inline]
    fn send<C: Caller>(&self, caller: &C, way: Direction, message: &[u8]) -> Result<(), C::Error> {
        write_all(caller, self.writer(way), message)
    }

    #[inline]
    fn receive<C: Caller>(
        &self,
        caller: &C,
        way: Direction,
        message: &mut [u8],
    ) -> Result<(), C::Error> {
        read_all(caller, self.reader(way), message)
    }
}

/// Writes all of `bytes`, in as many calls as it takes.
#[inline]
pub(crate) fn write_all<C: Caller>(
    caller: &C,
    fd: BorrowedFd<'_>,
    mut bytes: &[u8],
) -> Result<(), C::Error> {
    while !bytes.is_empty() {
        let written = caller.call("write to the other end", || write(fd, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Fills `bytes`, in as many calls as it takes.
#[inline]
pub(crate) fn read_all<C: Caller>(
    caller: &C,
    fd: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> Result<(), C::Error> {
    let mut done = 0;
    while done < bytes.len() {
        done += caller.call("read from the other end", || match read(fd, &mut bytes[done..]) {
            Ok(0) => Err(Errno::PIPE),
            outcome => outcome,
        })?;
    }
    Ok(())
}

fn tcp() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    // Anybody on this machine may connect to the port: take only our own.
    let theirs = loop {
        let (stream, from) = listener.accept()?;
        if from == ours.local_addr()? {
            break stream;
        }
    };
    ours.set_nodelay(true)?;
    theirs.set_nodelay(true)?;
    Ok((ours.into(), theirs.into()))
}

fn udp() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let ours = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let theirs = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    ours.connect(theirs.local_addr()?)?;
    theirs.connect(ours.local_addr()?)?;
    Ok((ours.into(), theirs.into()))
}
