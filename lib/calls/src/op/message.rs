//! Messages of sockets: several buffers, an address, and control messages beside
//! the bytes (cmsg(3)), such as the descriptors of unix(7).

use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{RecvFlags, ReturnFlags, SendFlags, SocketAddrAny};

use super::output::descriptor;
use super::ranges::{Gather, Scatter};
use super::socket::writes_what_it_tells;
use super::{BufferMut, Operation, address, control};
use crate::request::Request;

/// `struct msghdr`, as numbers, so that an operation may go from thread to thread.
#[derive(Debug, Default)]
#[repr(C)]
struct Header {
    name: u64,
    name_length: u32,
    ranges: u64,
    count: u64,
    control: u64,
    control_length: u64,
    flags: u32,
}

const _: () = assert!(
    size_of::<Header>() == size_of::<libc::msghdr>()
        && offset_of!(Header, name_length) == offset_of!(libc::msghdr, msg_namelen)
        && offset_of!(Header, ranges) == offset_of!(libc::msghdr, msg_iov)
        && offset_of!(Header, count) == offset_of!(libc::msghdr, msg_iovlen)
        && offset_of!(Header, control) == offset_of!(libc::msghdr, msg_control)
        && offset_of!(Header, control_length) == offset_of!(libc::msghdr, msg_controllen)
        && offset_of!(Header, flags) == offset_of!(libc::msghdr, msg_flags),
    "the kernel would take one field for another"
);

/// sendmsg(2): sends several buffers as one; gives the number of bytes in all. More
/// than 1024 buffers (`IOV_MAX`) are an error, `EMSGSIZE`.
#[derive(Debug)]
pub struct Sendmsg<F, B, D = BorrowedFd<'static>> {
    socket: F,
    data: Gather<B>,
    flags: SendFlags,
    address: Option<SocketAddrAny>,
    descriptors: Vec<D>,
    /// Control messages of the caller, and behind them the one with the descriptors.
    control: Vec<u8>,
    /// Bytes of `control` that are the caller's.
    control_given: usize,
    header: Header,
}

impl<F: AsFd, B: AsRef<[u8]>> Sendmsg<F, B> {
    /// The call with these arguments, to the peer that the socket is connected to.
    pub fn new(socket: F, data: Vec<B>, flags: SendFlags) -> Self {
        Sendmsg {
            socket,
            data: Gather::new(data),
            flags,
            address: None,
            descriptors: Vec::new(),
            control: Vec::new(),
            control_given: 0,
            header: Header::default(),
        }
    }
}

impl<F: AsFd, B: AsRef<[u8]>, D: AsFd> Sendmsg<F, B, D> {
    /// Sends to an address.
    #[must_use]
    pub fn to(self, address: &impl SocketAddrArg) -> Self {
        Sendmsg { address: Some(address.as_any()), ..self }
    }

    /// Sends duplicates of these open files, too (`SCM_RIGHTS`), whether or not they are still open
    /// here by then. At most 253, else `EINVAL`; at least one byte must go with them on a stream.
    #[must_use]
    pub fn with_descriptors<E: AsFd>(self, descriptors: Vec<E>) -> Sendmsg<F, B, E> {
        Sendmsg {
            socket: self.socket,
            data: self.data,
            flags: self.flags,
            address: self.address,
            descriptors,
            control: self.control,
            control_given: self.control_given,
            header: self.header,
        }
    }

    /// Sends these control messages, too, in the kernel's layout: see cmsg(3).
    ///
    /// # Safety
    /// Where they name descriptors (`SCM_RIGHTS`) or hold addresses (those of
    /// RDS), these are the caller's to give, open or valid for what the kernel
    /// does with them until the call is complete.
    #[must_use]
    pub unsafe fn with_control(self, messages: Vec<u8>) -> Self {
        Sendmsg { control_given: messages.len(), control: messages, ..self }
    }

    /// The socket, the data and the descriptors.
    pub fn into_parts(self) -> (F, Vec<B>, Vec<D>) {
        (self.socket, self.data.into_buffers(), self.descriptors)
    }
}

// SAFETY: the kernel reads the header and what that leads to: the address, the
// ranges, the data and the control messages, which the operation owns or borrows,
// as it does the descriptors in a message of its own; for what is in other
// messages the caller of `with_control` vouches.
unsafe impl<F: AsFd, B: AsRef<[u8]>, D: AsFd> Operation for Sendmsg<F, B, D> {
    type Output = Result<usize, Errno>;

    fn request(&mut self) -> Request {
        self.control.truncate(self.control_given);
        if !self.descriptors.is_empty() {
            control::append_rights(&mut self.control, &self.descriptors);
        }
        let (name, name_length) = self.address.as_ref().map_or((0, 0), address::arguments);
        let (ranges, count) = self.data.arguments();
        self.header = Header {
            name,
            name_length: name_length as u32,
            ranges,
            count,
            control: self.control.as_ptr() as u64,
            control_length: self.control.len() as u64,
            flags: 0,
        };
        let header = &raw const self.header as u64;
        let flags = self.flags.bits().into();
        Request::new(libc::SYS_sendmsg, [descriptor(&self.socket), header, flags])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the caller vouches for it.
        unsafe { self.data.complete(ret_val) }
    }
}

/// recvmsg(2): receives into several buffers, one after the other; gives the
/// number of bytes in all, 0 where the peer has ended sending. With
/// [`RecvFlags::TRUNC`] it is as for [`Recv`](super::Recv). More than 1024 buffers
/// (`IOV_MAX`) are an error, `EMSGSIZE`.
///
/// Descriptors that arrive (`SCM_RIGHTS`) belong to the operation:
/// [`take_descriptors`](Self::take_descriptors) gives them away, and those that
/// nobody has taken are closed when it is requested again or dropped. Give
/// [`RecvFlags::CMSG_CLOEXEC`] unless programs executed later shall have them.
#[derive(Debug)]
pub struct Recvmsg<F, B> {
    socket: F,
    flags: RecvFlags,
    buffers: Scatter<B>,
    sender: address::AddressRoom,
    control: control::ControlRoom,
    header: Header,
}

impl<F: AsFd, B: BufferMut> Recvmsg<F, B> {
    /// The call with these arguments, without room for control messages: the
    /// kernel drops them, closes descriptors among them, and says so by
    /// [`ReturnFlags::CTRUNC`].
    pub fn new(socket: F, flags: RecvFlags, buffers: Vec<B>) -> Self {
        Recvmsg {
            socket,
            flags,
            buffers: Scatter::new(buffers),
            sender: address::AddressRoom::new(),
            control: control::ControlRoom::default(),
            header: Header::default(),
        }
    }

    /// Adds room for control messages: `bytes`, rounded up to eight. A message takes 16 and its
    /// data, rounded up likewise: [`cmsg_space`](rustix::cmsg_space).
    #[must_use]
    pub fn with_control_room(self, bytes: usize) -> Self {
        Recvmsg { control: control::ControlRoom::new(bytes), ..self }
    }

    /// Bytes that the last call received into each buffer.
    #[inline]
    pub fn filled(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.buffers.filled()
    }

    /// Sender of the message that the last call received; `None` on a connection.
    #[inline]
    pub fn sender(&self) -> Option<SocketAddrAny> {
        self.sender.address()
    }

    /// Flags of the message that the last call received: whether it was cut off, or its control
    /// messages were; none if the call failed or was not made.
    #[inline]
    pub fn flags(&self) -> ReturnFlags {
        ReturnFlags::from_bits_retain(self.header.flags)
    }

    /// The control messages that came with what the last call received, in the
    /// kernel's layout, see cmsg(3).
    ///
    /// The numbers in `SCM_RIGHTS` are those of the descriptors that the
    /// operation has or gave away. A descriptor in any other message is open and
    /// nobody's: whoever asks the kernel for such (`SO_PASSPIDFD`) has to take it
    /// from here.
    #[inline]
    pub fn control(&self) -> &[u8] {
        self.control.bytes()
    }

    /// The descriptors that came with what the last call received.
    #[inline]
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        self.control.take_descriptors()
    }

    /// The socket and the buffers.
    pub fn into_parts(self) -> (F, Vec<B>) {
        (self.socket, self.buffers.into_buffers())
    }
}

// SAFETY: the kernel reads and writes the header and writes to what that leads
// to: the buffers' own memory and the fields for the address and the control
// messages, no more than there is room for. Descriptors that it makes are owned.
unsafe impl<F: AsFd, B: BufferMut> Operation for Recvmsg<F, B> {
    type Output = Result<usize, Errno>;

    fn request(&mut self) -> Request {
        let (name, _) = self.sender.room();
        let (ranges, count) = self.buffers.arguments();
        if !writes_what_it_tells(self.flags) {
            // SAFETY: nobody has touched the buffers since.
            unsafe { self.buffers.clear() };
        }
        let (control, control_length) = self.control.room();
        let name_length = self.sender.length;
        self.header =
            Header { name, name_length, ranges, count, control, control_length, flags: 0 };
        let header = &raw mut self.header as u64;
        let flags = self.flags.bits().into();
        Request::new(libc::SYS_recvmsg, [descriptor(&self.socket), header, flags])
    }

    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: the caller vouches for it.
        let received = unsafe { self.buffers.complete(ret_val) };
        if received.is_ok() {
            (self.sender.length, self.sender.written) = (self.header.name_length, true);
            // SAFETY: the kernel told in the header how many bytes it wrote, just
            // now (the caller vouches for it).
            unsafe { self.control.take(self.header.control_length as usize) };
        }
        received
    }
}
