//! Calls that open two descriptors.

use std::os::fd::{FromRawFd, OwnedFd};

use kumiki_sys::syscall;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;

use super::{Operation, Socket};
use crate::request::Request;

/// Memory to which the kernel writes the two numbers.
#[derive(Debug)]
struct Pair([i32; 2]);

impl Pair {
    const fn new() -> Pair {
        Pair([-1; 2])
    }

    /// A pointer to the numbers, to be written.
    #[inline]
    fn room(&mut self) -> u64 {
        self.0 = [-1; 2];
        &raw mut self.0 as u64
    }

    /// The descriptors, if the call has opened them.
    ///
    /// # Safety
    /// The kernel returned it for a call that got the last [`room`](Self::room),
    /// and this is the only call with it.
    #[inline]
    unsafe fn complete(&self, ret_val: i64) -> Result<(OwnedFd, OwnedFd), Errno> {
        syscall::result(ret_val)?;
        let [first, second] = self.0;
        if first < 0 || second < 0 {
            // Copied by fork(2) after the end and before the numbers, page by page: the
            // descriptors are the parent's.
            return Err(Errno::BADF);
        }
        // SAFETY: the call has opened and told both, just now; nobody else has them.
        let owned = |number| unsafe { OwnedFd::from_raw_fd(number) };
        Ok((owned(first), owned(second)))
    }
}

/// pipe2(2): a new pipe; gives the end to read from and the end to write to.
///
/// The flags go to the kernel as they are; give [`PipeFlags::CLOEXEC`] unless
/// programs executed later shall have the pipe.
#[derive(Debug)]
pub struct Pipe2 {
    flags: PipeFlags,
    ends: Pair,
}

impl Pipe2 {
    /// The call with this argument, to be made.
    #[inline]
    pub const fn new(flags: PipeFlags) -> Self {
        Pipe2 { flags, ends: Pair::new() }
    }
}

// SAFETY: the kernel writes two numbers, to the field for that: new descriptors.
unsafe impl Operation for Pipe2 {
    type Output = Result<(OwnedFd, OwnedFd), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        Request::new(libc::SYS_pipe2, [self.ends.room(), self.flags.bits().into()])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the caller vouches for it.
        unsafe { self.ends.complete(ret_val) }
    }
}

/// socketpair(2): two new sockets, connected to each other.
#[derive(Debug)]
pub struct Socketpair {
    socket: Socket,
    pair: Pair,
}

impl Socketpair {
    /// The call with these arguments, to be made. Of the families
    /// [`AddressFamily::UNIX`] has such pairs; `EOPNOTSUPP` from most others.
    #[inline]
    pub const fn new(
        family: AddressFamily,
        kind: SocketType,
        flags: SocketFlags,
        protocol: Option<Protocol>,
    ) -> Self {
        Socketpair { socket: Socket::new(family, kind, flags, protocol), pair: Pair::new() }
    }
}

// SAFETY: as for `Pipe2`.
unsafe impl Operation for Socketpair {
    type Output = Result<(OwnedFd, OwnedFd), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let [family, kind, protocol, ..] = self.socket.request().args;
        Request::new(libc::SYS_socketpair, [family, kind, protocol, self.pair.room()])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the caller vouches for it.
        unsafe { self.pair.complete(ret_val) }
    }
}
