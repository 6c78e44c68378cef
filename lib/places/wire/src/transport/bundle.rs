//! Places at sockets of another kernel, all in one stream: its frames.
//!
//! ```text
//!   host:  sockets ── attach ═══ stream ═══ relay ── sockets  :the other kernel
//! ```
//!
//! A frame is a number of a place (4 bytes), a number (8 bytes), a length (4 bytes), all little-endian, and a
//! message. That of place 0 is the relay's word ([`RelayMessage`]): which places come and go, each with a
//! number that is never used again. Those of other places are as at their sockets. Either side checks what
//! the other one sends, and ends the stream at what is no frame.

use std::io;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::mpsc::Receiver;

use crate::transport::passed::LIMIT;

/// The number of the relay's own frames.
pub const RELAY: u32 = 0;
/// Frames that wait to leave, at most.
pub const FRAMES: usize = 256;
/// Requests of one place under way at a time, at most; the oldest is given up for one more.
pub const MOST_UNDER_WAY: usize = 4096;

/// Message of the relay itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayMessage {
    /// A place answers there, and has this number.
    There { number: u32, place: String },
    /// The end answers no more.
    Gone { number: u32 },
    /// All that there were when the relay began have been told.
    Told,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub place: u32,
    pub number: u64,
    pub message: Bytes,
}

impl Frame {
    pub fn new(place: u32, number: u64, message: Bytes) -> Frame {
        Frame { place, number, message }
    }

    /// Reads one; none at the stream's end.
    pub async fn read(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Option<Frame>> {
        let place = match from.read_u32_le().await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            place => place?,
        };
        let frame = crate::transport::sockets::read(from).await?;
        let (number, message) = frame.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Some(Frame { place, number, message }))
    }

    /// Writes it, without flushing.
    pub async fn write(&self, to: &mut (impl AsyncWriteExt + Unpin)) -> io::Result<()> {
        if self.message.len() > LIMIT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        to.write_all(&self.place.to_le_bytes()).await?;
        crate::transport::sockets::write(to, self.number, &self.message).await
    }
}

/// Writes frames, until nobody reads them.
pub async fn send(to: impl AsyncWrite + Unpin, mut leaving: Receiver<Frame>) {
    let mut to = BufWriter::new(to);
    while let Some(frame) = leaving.recv().await {
        if frame.write(&mut to).await.is_err() {
            return;
        }
        // Those that wait leave together.
        if leaving.is_empty() && to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_comes_back_and_half_a_frame_is_an_error() {
        let frame = Frame::new(7, u64::MAX, Bytes::from_static(b"message"));
        let mut bytes = Vec::new();
        frame.write(&mut bytes).await.unwrap();
        let mut from = &bytes[..];
        assert_eq!(Frame::read(&mut from).await.unwrap(), Some(frame));
        assert_eq!(Frame::read(&mut from).await.unwrap(), None);
        for cut in [2, 4, 9, 15, bytes.len() - 1] {
            // What is less than a place's number is a stream's end.
            let read = Frame::read(&mut &bytes[..cut]).await;
            assert!(if cut < 4 { matches!(read, Ok(None)) } else { read.is_err() }, "{cut}");
        }
        bytes[12..16].fill(0xff);
        assert!(Frame::read(&mut &bytes[..]).await.is_err(), "four gigabytes");
    }
}
