//! Frames in a channel's rings, each of a kind and a body.
//!
//! ```text
//!   host -> node   Exec, then any Stdin, StdinEnd, Resize; or Shutdown; or Lend; or Keep;
//!                  or Watch; or Cpus
//!   node -> host   Started, any Stdout, Stderr, then Exited or Signalled; or Failed
//! ```

use serde::{Deserialize, Serialize};

use crate::module::abi;
use crate::ring::Ring;
use crate::{Error, ErrorKind, Result};

/// Bytes of a body; a frame must leave room for others in a ring.
pub const BODY_LIMIT: usize = 0xc000;

/// Body of `Keep` for a node that wakes in its own memory; of one that is copied there is none.
pub const STAYS: [u8; 1] = [1];

/// A frame of output, so that two fit.
pub const CHUNK_BYTES: usize = 0x4000;

const HEADER_BYTES: usize = 8;

/// A kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A [`Program`] to run, as JSON.
    Exec = 1,
    /// Bytes for its standard input.
    Stdin = 2,
    /// No more of them.
    StdinEnd = 3,
    /// Switch the node off.
    Shutdown = 5,
    /// Its terminal's new [`Size`], two u16.
    Resize = 6,
    /// Another node that this one may start, a grant as JSON;
    /// answered by Exited or Failed.
    Lend = 7,
    /// Sleep, so that the memory can be kept; answered by the word of a node that is kept, or by
    /// Failed.
    Keep = 8,
    /// Watch the host, an order as JSON, or no more if there is none;
    /// answered by Exited or Failed.
    Watch = 9,
    /// Cpus to bring on and off line, a [`CpuOrder`] as JSON; answered by Exited or Failed. What has
    /// become of each is a word in the window.
    Cpus = 10,
    /// The program runs.
    Started = 16,
    Stdout = 17,
    Stderr = 18,
    /// Its exit status, u32.
    Exited = 19,
    /// The signal that ended it, u32.
    Signalled = 20,
    /// Reason for which it could not be started, text.
    Failed = 21,
}

const KINDS: [FrameKind; 15] = [
    FrameKind::Exec,
    FrameKind::Stdin,
    FrameKind::StdinEnd,
    FrameKind::Shutdown,
    FrameKind::Resize,
    FrameKind::Lend,
    FrameKind::Keep,
    FrameKind::Watch,
    FrameKind::Cpus,
    FrameKind::Started,
    FrameKind::Stdout,
    FrameKind::Stderr,
    FrameKind::Exited,
    FrameKind::Signalled,
    FrameKind::Failed,
];

/// A program for a node to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name and its arguments.
    pub words: Vec<String>,
    /// Variables beside the agent's own.
    pub environment: Vec<(String, String)>,
    /// Folder to run in; `/` if none is given.
    pub folder: Option<String>,
    /// A terminal of this size instead of pipes.
    pub terminal: Option<Size>,
    /// A program of ours, which is beside the node's root.
    #[serde(default)]
    pub beside_root: bool,
    /// The health check that the node's container image names, in place of words.
    #[serde(default)]
    pub health: bool,
}

/// Cpus for a node's kernel to use, and to release, by their APIC ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuOrder {
    /// Cpus to be brought on line.
    pub on: Vec<u32>,
    /// Cpus to be released.
    pub off: Vec<u32>,
}

/// A terminal's size, characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Rows from top to bottom.
    pub rows: u16,
    /// Columns from left to right.
    pub columns: u16,
}

impl Size {
    pub fn to_body(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.rows.to_le_bytes(), self.columns.to_le_bytes());
        [a, b, c, d]
    }

    pub fn of_body(body: &[u8]) -> Result<Self> {
        let both = number(body)?;
        Ok(Size { rows: both as u16, columns: (both >> 16) as u16 })
    }
}

/// Writes a frame; whether there was room.
pub fn send(ring: &Ring<'_>, kind: FrameKind, body: &[u8]) -> Result<bool> {
    if body.len() > BODY_LIMIT {
        let what = match kind {
            FrameKind::Exec => "command line and environment",
            FrameKind::Lend => "description of the node to be lent",
            _ => "one frame",
        };
        return Err(Error::refused(
            ErrorKind::Invalid,
            format!("{} bytes of {what}; a node takes at most {BODY_LIMIT}", body.len()),
        ));
    }
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[4] = kind as u8;
    ring.write(&[&header, body])
}

/// Takes a frame, if a whole one is there.
pub fn receive(ring: &Ring<'_>) -> Result<Option<(FrameKind, Vec<u8>)>> {
    let available = ring.available()?;
    if available < HEADER_BYTES {
        return Ok(None);
    }
    let mut header = [0; HEADER_BYTES];
    ring.peek(0, &mut header);
    let [a, b, c, d, kind, reserved @ ..] = header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let Some(kind) = KINDS.into_iter().find(|known| *known as u8 == kind) else {
        return Err(Error::Protocol(format!("a frame of the unknown kind {kind}")));
    };
    // A frame is written at once: a part of one is no frame.
    if length > BODY_LIMIT || available < HEADER_BYTES + length || reserved != [0; 3] {
        return Err(Error::Protocol(format!("a frame of {length} bytes, {available} being there")));
    }
    let mut body = vec![0; length];
    ring.peek(HEADER_BYTES, &mut body);
    ring.consume(HEADER_BYTES + length);
    Ok(Some((kind, body)))
}

/// A body that is one number.
pub fn number(body: &[u8]) -> Result<u32> {
    let bytes = body.try_into().map_err(|_| {
        Error::Protocol(format!("{} bytes where a number of 4 was expected", body.len()))
    })?;
    Ok(u32::from_le_bytes(bytes))
}

const _: () = assert!(2 * (CHUNK_BYTES + HEADER_BYTES) <= abi::RING_BYTES);
const _: () = assert!(BODY_LIMIT + HEADER_BYTES <= abi::RING_BYTES);

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
        assert!(send(&ring, FrameKind::Stdout, &[7; BODY_LIMIT]).unwrap());
        assert!(!send(&ring, FrameKind::Stdout, &[8; BODY_LIMIT]).unwrap());
        assert!(send(&ring, FrameKind::Exited, &3u32.to_le_bytes()).unwrap());
        assert_eq!(receive(&ring).unwrap(), Some((FrameKind::Stdout, vec![7; BODY_LIMIT])));
        let (kind, body) = receive(&ring).unwrap().unwrap();
        assert_eq!((kind, number(&body).unwrap()), (FrameKind::Exited, 3));
        assert_eq!(receive(&ring).unwrap(), None);
        assert!(send(&ring, FrameKind::Exec, &vec![0; BODY_LIMIT + 1]).is_err());
        assert!(number(b"abc").is_err());
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
                while let Ok(Some((_, body))) = receive(&ring) {
                    prop_assert!(body.len() <= BODY_LIMIT);
                }
            }
        }
    }

    #[test]
    fn a_size_goes_through_a_frame() {
        let size = Size { rows: 24, columns: 0x1234 };
        assert_eq!(Size::of_body(&size.to_body()).unwrap(), size);
        assert!(Size::of_body(b"abc").is_err());
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for (header, says) in [
            ([0, 0, 0, 0, 99, 0, 0, 0], "kind 99"),
            ([1, 0, 0, 0, 2, 0, 0, 0], "1 bytes, 8"),
            ([0, 0, 0, 0, 2, 1, 0, 0], "0 bytes, 8"),
            ([0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0], "4294967295"),
        ] {
            let window = window();
            let ring = Ring::new(&window, 0, 0x1000);
            ring.write(&[&header]).unwrap();
            let error = receive(&ring).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
