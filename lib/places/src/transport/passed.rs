//! Frames as they are written, and one with a descriptor.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::OwnedWriteHalf;

/// Bytes of a frame before its message: number, length.
pub(crate) const HEAD: usize = 12;

/// Memory that is to go over a socket, and the message that says so.
pub(crate) struct Given {
    pub(crate) number: u64,
    pub(crate) message: Bytes,
    pub(crate) fd: OwnedFd,
}

/// A frame of a message that is not longer than one may be.
pub(crate) fn frame(number: u64, message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD + message.len());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&(message.len() as u32).to_le_bytes());
    frame.extend_from_slice(message);
    frame
}

/// Writes a frame with a descriptor, which goes with its first byte.
pub(crate) async fn give(to: &mut OwnedWriteHalf, given: &Given) -> io::Result<()> {
    let frame = frame(given.number, &given.message);
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [given.fd.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let parts = [IoSlice::new(&frame)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(sendmsg(to.as_ref(), &parts, &mut control, flags)?)
    };
    let sent = to.as_ref().async_io(Interest::WRITABLE, send).await?;
    to.write_all(frame.get(sent..).unwrap_or_default()).await
}
