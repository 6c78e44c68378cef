//! A channel's two rings as the way of one stream's frames (`kumiki-stream`).
//!
//! A frame is written whole or not at all, so a part of one is none. Who takes frames out of a ring that was
//! more than half full rings, as its writer may wait for room.

use std::fs::File;
use std::time::Duration;

use kumiki_stream::frame::{HEADER_BYTES, Header};
use kumiki_stream::{Kind, Link, Other};

use crate::module::{abi, doorbell};
use crate::ring::Ring;
use crate::window::Channel;
use crate::{Error, ErrorKind, Result, Subject};

/// Cost of the data that may be under way in one direction of a channel: there is room for other frames.
const WINDOW_BYTES: usize = 0xc000;

/// Bytes of a frame's body, at most: of one that opens a stream, too.
pub const BODY_LIMIT: usize = 0xc000;

/// Number of the stream: a channel has one.
const STREAM: u32 = 0;

/// End of a channel: its doorbell, and whether the other end is there.
pub trait End {
    /// Longest sleep, should a doorbell get lost.
    const LOOK_AGAIN: Duration;
    /// Spin so long for a frame before sleeping.
    const SPIN: Duration;

    /// True if this is the node's end.
    fn is_node(&self) -> bool;

    /// Device by which the doorbell is waited for.
    fn bell(&self) -> &File;

    /// Rings the other end.
    ///
    /// # Errors
    /// The kernel's answer.
    fn ring(&self) -> Result<()>;

    /// Looks whether the other end is there.
    ///
    /// # Errors
    /// It is not: what has become of it.
    fn alive(&self) -> Result<()>;
}

/// One end of a channel.
#[derive(Debug)]
pub struct ChannelLink<'a, E> {
    channel: Channel<'a>,
    end: E,
}

impl<'a, E: End> ChannelLink<'a, E> {
    pub fn new(channel: Channel<'a>, end: E) -> Self {
        ChannelLink { channel, end }
    }

    fn from(&self) -> &Ring<'a> {
        if self.end.is_node() { &self.channel.to_node } else { &self.channel.to_host }
    }

    fn to(&self) -> &Ring<'a> {
        if self.end.is_node() { &self.channel.to_host } else { &self.channel.to_node }
    }
}

impl<E: End> Link for ChannelLink<'_, E> {
    type Error = Error;

    fn window(&self) -> usize {
        WINDOW_BYTES
    }

    fn send(&self, kind: Kind, body: &[u8]) -> Result<()> {
        while !put(self.to(), kind, body)? {
            self.end.alive()?;
            self.wait(&[], None)?;
        }
        self.end.ring()
    }

    fn receive(&self) -> Result<Option<(Kind, Vec<u8>)>> {
        // Before what it has sent is looked at: that is there then.
        let alive = self.end.alive();
        let is_full = self.from().available()? > abi::RING_BYTES / 2;
        let Some(frame) = take(self.from())? else { return alive.map(|()| None) };
        if is_full {
            self.end.ring()?;
        }
        Ok(Some(frame))
    }

    fn wait(&self, others: &[Other<'_>], limit: Option<Duration>) -> Result<()> {
        let begin = std::time::Instant::now();
        while begin.elapsed() < E::SPIN {
            if self.from().available()? > 0 {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let limit = limit.map_or(E::LOOK_AGAIN, |limit| limit.min(E::LOOK_AGAIN));
        doorbell::wait(self.end.bell(), others, limit)
            .map_err(|error| Error::os("waiting for the other end of a channel", error))
    }
}

/// Writes a frame; whether there was room.
///
/// # Errors
/// None could hold the body; or the ring is damaged.
pub fn put(ring: &Ring<'_>, kind: Kind, body: &[u8]) -> Result<bool> {
    let most = BODY_LIMIT.min(kind.most_bytes());
    if body.len() > most {
        let what = match kind {
            Kind::Open => "a command line with its environment, or of another wish",
            _ => "one frame",
        };
        let text = format!("{} bytes of {what}; a node takes at most {most}", body.len());
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::limit("bytes of a frame", body.len(), most),
            text,
        ));
    }
    let header = Header { length: body.len(), stream: STREAM, kind }.encode();
    ring.write(&[&header, body])
}

/// Takes a frame, if a whole one is there.
///
/// # Errors
/// What is there is none.
pub fn take(ring: &Ring<'_>) -> Result<Option<(Kind, Vec<u8>)>> {
    let available = ring.available()?;
    if available < HEADER_BYTES {
        return Ok(None);
    }
    let mut header = [0; HEADER_BYTES];
    ring.peek(0, &mut header);
    let Header { length, stream, kind } = Header::decode(header)?;
    // A frame is written at once: a part of one is no frame.
    if length > BODY_LIMIT || available < HEADER_BYTES + length || stream != STREAM {
        let text = format!("a frame of {length} bytes in stream {stream}, {available} being there");
        return Err(Error::Protocol(text));
    }
    let mut body = vec![0; length];
    ring.peek(HEADER_BYTES, &mut body);
    ring.consume(HEADER_BYTES + length);
    Ok(Some((kind, body)))
}

const _: () = assert!(BODY_LIMIT + HEADER_BYTES <= abi::RING_BYTES);
// All data that may be under way, and a closing frame behind it.
const _: () = assert!(WINDOW_BYTES + 0x2800 <= abi::RING_BYTES);

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::memory::Memory;

    fn window() -> Memory {
        Memory::zeroed((0x1000 + abi::RING_BYTES) as u64)
    }

    #[test]
    fn frames_arrive_in_order_and_a_full_ring_takes_none() {
        let window = window();
        let ring = Ring::new(&window, 0, 0x1000);
        let most = Kind::Output.most_bytes();
        for byte in 0..3 {
            assert!(put(&ring, Kind::Output, &vec![byte; most]).unwrap());
        }
        assert!(!put(&ring, Kind::Output, &vec![3; most]).unwrap());
        assert!(put(&ring, Kind::Close, &[3]).unwrap());
        for byte in 0..3 {
            assert_eq!(take(&ring).unwrap(), Some((Kind::Output, vec![byte; most])));
        }
        assert_eq!(take(&ring).unwrap(), Some((Kind::Close, vec![3])));
        assert_eq!(take(&ring).unwrap(), None);
        let long = put(&ring, Kind::Open, &vec![0; BODY_LIMIT + 1]).unwrap_err().to_string();
        assert!(long.contains("49153 bytes") && long.contains("at most 49152"), "{long}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Checks that, whatever a damaged node writes, the host reads frames to an end or an error.
        #[test]
        fn any_bytes_are_frames_or_an_error(
            head: u32, tail: u32, bytes in prop::collection::vec(any::<u8>(), 0..512),
        ) {
            let window = window();
            window.write(0x1000 + tail as usize % (abi::RING_BYTES - 512), &bytes);
            for head in [head, tail.wrapping_add(bytes.len() as u32)] {
                window.u32(0).store(head, Ordering::Relaxed);
                window.u32(abi::RING_TAIL).store(tail, Ordering::Relaxed);
                let ring = Ring::new(&window, 0, 0x1000);
                while let Ok(Some((_, body))) = take(&ring) {
                    prop_assert!(body.len() <= BODY_LIMIT);
                }
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for (header, says) in [
            ([0, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0], "kind 99"),
            ([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0], "1 bytes in stream 0, 12"),
            ([0, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0], "0 bytes in stream 7, 12"),
            ([0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0], "[1, 0, 0]"),
            ([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 2, 0, 0, 0], "4294967295"),
        ] {
            let window = window();
            let ring = Ring::new(&window, 0, 0x1000);
            ring.write(&[&header]).unwrap();
            let error = take(&ring).unwrap_err().to_string();
            assert!(error.contains("channel holds") && error.contains(says), "{error}");
        }
    }
}
