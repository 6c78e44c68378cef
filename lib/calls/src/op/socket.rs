//! Sockets.
//!
//! Sending to a peer that has gone raises `SIGPIPE`, on whichever thread makes
//! the call; Rust programs ignore it, others give
//! [`SendFlags::NOSIGNAL`](rustix::net::SendFlags::NOSIGNAL).

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, SocketType,
};

use super::address::{AddressRoom, arguments};
use super::output::{descriptor, typed};
use super::ranges::Range;
use super::{BufferMut, Operation};
use crate::request::Request;

operation! {
    /// socket(2): a new socket.
    pub struct Socket {
        family: AddressFamily,
        kind: SocketType,
        flags: SocketFlags,
        protocol: Option<Protocol>,
    }
    |op| Request::new(
        libc::SYS_socket,
        [
            op.family.as_raw() as u64,
            u64::from(op.kind.as_raw() | op.flags.bits()),
            op.protocol.map_or(0, |protocol| protocol.as_raw().get().into()),
        ],
    ) => OwnedFd
}

/// The calls that give the kernel an address.
macro_rules! addressed {
    ($(#[$doc:meta])* $name:ident: $sysnum:path) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<F> {
            socket: F,
            address: SocketAddrAny,
        }

        impl<F: AsFd> $name<F> {
            /// The call with these arguments, to be made.
            #[inline]
            pub fn new(socket: F, address: &impl SocketAddrArg) -> Self {
                $name { socket, address: address.as_any() }
            }
        }

        // SAFETY: the kernel reads the address, which the operation owns.
        unsafe impl<F: AsFd> Operation for $name<F> {
            type Output = Result<(), Errno>;

            #[inline]
            fn request(&mut self) -> Request {
                let (address, length) = arguments(&self.address);
                Request::new($sysnum, [descriptor(&self.socket), address, length])
            }

            #[inline]
            unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
                // SAFETY: nothing is made of the value.
                unsafe { typed(ret_val) }
            }
        }
    };
}

addressed! {
    /// bind(2): gives the socket an address of its own.
    Bind: libc::SYS_bind
}

addressed! {
    /// connect(2): connects the socket to an address, or names its peer.
    Connect: libc::SYS_connect
}

operation! {
    /// listen(2): takes connections, up to `backlog` that nobody has accepted.
    pub struct Listen<F: AsFd> { socket: F, backlog: i32 }
    |op| Request::new(libc::SYS_listen, [descriptor(&op.socket), op.backlog as u64]) => ()
}

operation! {
    /// shutdown(2): ends sending, receiving or both.
    pub struct ShutdownSocket<F: AsFd> { socket: F, how: Shutdown }
    |op| Request::new(libc::SYS_shutdown, [descriptor(&op.socket), op.how as u64]) => ()
}

/// accept4(2): waits for a connection and takes it.
#[derive(Debug)]
pub struct Accept4<F> {
    socket: F,
    flags: SocketFlags,
    peer: AddressRoom,
}

impl<F: AsFd> Accept4<F> {
    /// The call with these arguments, to be made.
    #[inline]
    pub const fn new(socket: F, flags: SocketFlags) -> Self {
        Accept4 { socket, flags, peer: AddressRoom::new() }
    }

    /// Address of the peer that the last call accepted.
    #[inline]
    pub fn peer(&self) -> Option<SocketAddrAny> {
        self.peer.address()
    }
}

// SAFETY: the kernel writes an address and its length to the fields for that;
// what it gives is a new descriptor.
unsafe impl<F: AsFd> Operation for Accept4<F> {
    type Output = Result<OwnedFd, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let (address, length) = self.peer.room();
        let flags = self.flags.bits() as u64;
        Request::new(libc::SYS_accept4, [descriptor(&self.socket), address, length, flags])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the engine hands over what the kernel returned for this call,
        // once.
        let accepted = unsafe { typed(ret_val) };
        self.peer.written = accepted.is_ok();
        accepted
    }
}

operation! {
    /// send(2): sends to the peer that the socket is connected to.
    pub struct Send<F: AsFd, B: AsRef<[u8]>> { socket: F, data: B, flags: SendFlags }
    |op| {
        let data = op.data.as_ref();
        let (data, length) = (data.as_ptr() as u64, data.len() as u64);
        let flags = op.flags.bits() as u64;
        Request::new(libc::SYS_sendto, [descriptor(&op.socket), data, length, flags, 0, 0])
    } => usize
}

/// sendto(2): sends to an address.
#[derive(Debug)]
pub struct Sendto<F, B> {
    socket: F,
    data: B,
    flags: SendFlags,
    address: SocketAddrAny,
}

impl<F: AsFd, B: AsRef<[u8]>> Sendto<F, B> {
    /// The call with these arguments, to be made.
    #[inline]
    pub fn new(socket: F, data: B, flags: SendFlags, address: &impl SocketAddrArg) -> Self {
        Sendto { socket, data, flags, address: address.as_any() }
    }

    /// The socket and the data.
    #[inline]
    pub fn into_parts(self) -> (F, B) {
        (self.socket, self.data)
    }
}

// SAFETY: the kernel reads the data and the address, which the operation owns or
// borrows.
unsafe impl<F: AsFd, B: AsRef<[u8]>> Operation for Sendto<F, B> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let data = self.data.as_ref();
        let (data, length) = (data.as_ptr() as u64, data.len() as u64);
        let (address, address_length) = arguments(&self.address);
        let flags = self.flags.bits() as u64;
        Request::new(
            libc::SYS_sendto,
            [descriptor(&self.socket), data, length, flags, address, address_length],
        )
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: any number is a count.
        unsafe { typed(ret_val) }
    }
}

/// True if a call with these flags writes all the bytes it tells of, as far as there is room.
/// `MSG_TRUNC` on TCP counts bytes and throws them away, and so may a flag that is not known here
/// (`MSG_SOCK_DEVMEM` leaves them in a device).
pub(super) fn writes_what_it_tells(flags: RecvFlags) -> bool {
    let known = RecvFlags::CMSG_CLOEXEC
        | RecvFlags::DONTWAIT
        | RecvFlags::ERRQUEUE
        | RecvFlags::OOB
        | RecvFlags::PEEK
        | RecvFlags::WAITALL;
    (flags - known).is_empty()
}

filling! {
    /// recv(2): receives; 0 where the peer has ended sending.
    ///
    /// With [`RecvFlags::TRUNC`] the result may be more than the buffer holds, whose
    /// room is made zeros before the call: on TCP that counts the bytes and throws
    /// them away, so that zeros are all that was received.
    pub struct Recv<F: AsFd> { socket: F, flags: RecvFlags }
    |op, pointer, room| {
        if !writes_what_it_tells(op.flags) {
            // SAFETY: the buffer's room, told just now.
            unsafe { Range { address: pointer, length: room }.clear() };
        }
        Request::new(
            libc::SYS_recvfrom,
            [descriptor(&op.socket), pointer, room, op.flags.bits() as u64, 0, 0],
        )
    }
}

/// recvfrom(2): as [`Recv`], and who sent it.
#[derive(Debug)]
pub struct Recvfrom<F, B> {
    recv: Recv<F, B>,
    sender: AddressRoom,
}

impl<F: AsFd, B: BufferMut> Recvfrom<F, B> {
    /// The call with these arguments, to be made.
    #[inline]
    pub const fn new(socket: F, flags: RecvFlags, buffer: B) -> Self {
        Recvfrom { recv: Recv::new(socket, flags, buffer), sender: AddressRoom::new() }
    }

    /// Bytes that the last call received.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        self.recv.filled()
    }

    /// Sender of the bytes that the last call received; `None` on a connection.
    #[inline]
    pub fn sender(&self) -> Option<SocketAddrAny> {
        self.sender.address()
    }

    /// The buffer.
    #[inline]
    pub fn into_buffer(self) -> B {
        self.recv.into_buffer()
    }
}

// SAFETY: as `Recv`; the address and its length go to the fields for that.
unsafe impl<F: AsFd, B: BufferMut> Operation for Recvfrom<F, B> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let mut request = self.recv.request();
        (request.args[4], request.args[5]) = self.sender.room();
        request
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the caller vouches for it.
        let received = unsafe { self.recv.complete(ret_val) };
        self.sender.written = received.is_ok();
        received
    }
}
