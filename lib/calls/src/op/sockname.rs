//! The addresses of a socket, asked for.

use std::os::fd::AsFd;

use kumiki_sys::syscall;
use rustix::io::Errno;
use rustix::net::SocketAddrAny;

use super::Operation;
use super::address::AddressRoom;
use super::output::descriptor;
use crate::request::Request;

macro_rules! sockname {
    ($(#[$doc:meta])* $name:ident: $sysnum:path) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<F> {
            socket: F,
            address: AddressRoom,
        }

        impl<F: AsFd> $name<F> {
            /// The call with this argument, to be made.
            #[inline]
            pub const fn new(socket: F) -> Self {
                $name { socket, address: AddressRoom::new() }
            }
        }

        // SAFETY: the kernel writes an address and its length to the fields for
        // that.
        unsafe impl<F: AsFd> Operation for $name<F> {
            type Output = Result<Option<SocketAddrAny>, Errno>;

            #[inline]
            fn request(&mut self) -> Request {
                let (address, length) = self.address.room();
                Request::new($sysnum, [descriptor(&self.socket), address, length])
            }

            #[inline]
            unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
                syscall::result(ret_val)?;
                self.address.written = true;
                Ok(self.address.address())
            }
        }
    };
}

sockname! {
    /// getsockname(2): the socket's own address, which may have a family alone;
    /// `None` if not even that.
    Getsockname: libc::SYS_getsockname
}

sockname! {
    /// getpeername(2): the address of the peer that the socket is connected to, as
    /// for [`Getsockname`]; `ENOTCONN` if there is none.
    Getpeername: libc::SYS_getpeername
}
