//! Bytes to and from a client, plainly or encrypted.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use crate::moved::Moved;

/// A connection's bytes.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(OwnedFd),
    #[cfg(feature = "tls")]
    Tls(Box<crate::tls::Encrypted>),
}

impl Transport {
    /// Appends what has come to `input`: `room` bytes, and as many as it has room for already.
    pub(crate) fn receive(&mut self, input: &mut Vec<u8>, room: usize) -> Moved {
        match self {
            Transport::Plain(socket) => {
                input.reserve_exact(room);
                let result = recv(&*socket, spare_capacity(input), RecvFlags::DONTWAIT);
                moved(result.map(|(count, _)| count))
            }
            #[cfg(feature = "tls")]
            Transport::Tls(encrypted) => encrypted.receive(input, room),
        }
    }

    /// True if the epoll tells of all that can be received: nothing of it is kept here.
    pub(crate) fn is_notified(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Sends from `head`, and then from `body`.
    pub(crate) fn send(&mut self, head: &[u8], body: &[u8]) -> Moved {
        match self {
            Transport::Plain(socket) => {
                let mut none = SendAncillaryBuffer::new(&mut [] as &mut [MaybeUninit<u8>]);
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let parts = [IoSlice::new(head), IoSlice::new(body)];
                moved(sendmsg(&*socket, &parts, &mut none, flags))
            }
            #[cfg(feature = "tls")]
            Transport::Tls(encrypted) => encrypted.send(head, body),
        }
    }

    /// Sends what it has kept; [`Moved::Bytes`] if there is nothing left.
    pub(crate) fn flush(&mut self) -> Moved {
        match self {
            Transport::Plain(_) => Moved::Bytes(0),
            #[cfg(feature = "tls")]
            Transport::Tls(encrypted) => encrypted.flush(),
        }
    }

    /// Says that nothing more comes. What the client still sends is not read.
    pub(crate) fn finish(&mut self) {
        #[cfg(feature = "tls")]
        if let Transport::Tls(encrypted) = self {
            encrypted.finish();
        }
        let _ = rustix::net::shutdown(&*self, rustix::net::Shutdown::Write);
    }
}

fn moved(result: Result<usize, Errno>) -> Moved {
    match result {
        Ok(count) => Moved::Bytes(count),
        Err(Errno::AGAIN | Errno::INTR) => Moved::Later,
        Err(_) => Moved::Lost,
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Plain(socket) => socket.as_fd(),
            #[cfg(feature = "tls")]
            Transport::Tls(encrypted) => encrypted.as_fd(),
        }
    }
}
