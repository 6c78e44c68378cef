//! Frames as they are written, and one with a descriptor.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use kumiki_sys::descriptors;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::OwnedWriteHalf;

/// Bytes of a message, at most: as a NATS server has it if nothing else is said.
pub const LIMIT: usize = 1 << 20;
/// Bytes of a frame before its message: number, length.
pub const HEAD: usize = 12;

/// Memory that is to go over a socket, and the message that says so.
#[derive(Debug)]
pub struct PassedMemory {
    pub number: u64,
    pub message: Bytes,
    pub fd: OwnedFd,
}

/// A frame of a message that is not longer than one may be.
pub fn frame(number: u64, message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    add_frame(&mut frame, number, message);
    frame
}

/// Adds such a frame to others.
pub fn add_frame(frames: &mut Vec<u8>, number: u64, message: &[u8]) {
    frames.reserve(HEAD + message.len());
    frames.extend_from_slice(&number.to_le_bytes());
    frames.extend_from_slice(&(message.len() as u32).to_le_bytes());
    frames.extend_from_slice(message);
}

/// True if a whole frame is here whose message has so many bytes at most.
pub fn begins_with_frame(bytes: &[u8], most: usize) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk() else { return false };
    head_within(*head, most).is_ok_and(|(_, length)| rest.len() >= length)
}

/// The number and the length, which is checked, of a frame that begins so.
pub fn head_of(head: [u8; HEAD]) -> io::Result<(u64, usize)> {
    head_within(head, LIMIT)
}

/// Reads the head of a frame whose message has so many bytes at most.
pub fn head_within(head: [u8; HEAD], most: usize) -> io::Result<(u64, usize)> {
    let [n0, n1, n2, n3, n4, n5, n6, n7, length @ ..] = head;
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        let text = format!("a message of {length} bytes, of {most} at most");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok((u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]), length))
}

/// Reads a frame's message: as much memory as comes, not as is said.
pub fn message(length: usize, from: impl Read) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    if from.take(length as u64).read_to_end(&mut message)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(message)
}

/// Writes a frame with a descriptor, which goes with its first byte.
pub async fn give(to: &mut OwnedWriteHalf, given: &PassedMemory) -> io::Result<()> {
    let frame = frame(given.number, &given.message);
    let send = || Ok(descriptors::send(to.as_ref(), &frame, &[given.fd.as_fd()])?);
    let sent = to.as_ref().async_io(Interest::WRITABLE, send).await?;
    to.write_all(frame.get(sent..).unwrap_or_default()).await
}
