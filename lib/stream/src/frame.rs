//! Frames: a header of fixed length that names a stream and a kind, and a body.
//!
//! ```text
//!    0        4        8     9        12
//!    ┌────────┬────────┬─────┬────────┬──────────
//!    │ length │ stream │ kind│ 0      │ body …      little-endian
//!    └────────┴────────┴─────┴────────┴──────────
//! ```
//!
//! Bytes of a program are bodies as they are; every other body is postcard.

use std::io::{self, ErrorKind, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;
/// Bytes of data in one frame, at most.
pub const CHUNK_BYTES: usize = 16 << 10;
/// Bytes of an opening, at most: arguments and environment are limited to 2 MiB together by exec itself.
const OPEN_BYTES: usize = 4 << 20;
/// Bytes of a closing, at most: how it ended, with a reason as text.
const CLOSE_BYTES: usize = 16 << 10;
/// Bytes of any other body, at most: one or two numbers.
const SMALL_BYTES: usize = 16;

/// A kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First frame of a stream: a wish, of a type that both ends know.
    Open = 1,
    /// Data towards the end that was asked: a program's standard input.
    Input = 2,
    /// Data towards the end that asked: its standard output.
    Output = 3,
    /// Data towards the end that asked: its standard error.
    Errors = 4,
    /// No more input.
    End = 5,
    /// Credit for what was passed on, u32.
    Credit = 6,
    /// A signal, i32.
    Signal = 7,
    /// A terminal's new size.
    Resize = 8,
    /// Last frame of a stream. From the end that was asked with an answer, of a type that both know.
    Close = 9,
}

/// All kinds.
pub const KINDS: [Kind; 9] = [
    Kind::Open,
    Kind::Input,
    Kind::Output,
    Kind::Errors,
    Kind::End,
    Kind::Credit,
    Kind::Signal,
    Kind::Resize,
    Kind::Close,
];

impl Kind {
    /// True of what costs credit.
    pub fn is_data(self) -> bool {
        matches!(self, Kind::Input | Kind::Output | Kind::Errors)
    }

    /// Bytes that a body of it may have.
    pub fn most_bytes(self) -> usize {
        match self {
            Kind::Open => OPEN_BYTES,
            Kind::Close => CLOSE_BYTES,
            kind if kind.is_data() => CHUNK_BYTES,
            _ => SMALL_BYTES,
        }
    }
}

/// A frame's header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body.
    pub length: usize,
    /// Number of the stream.
    pub stream: u32,
    /// Kind of the frame.
    pub kind: Kind,
}

impl Header {
    /// Header of a frame with a body of so many bytes.
    ///
    /// # Errors
    /// They are more than a frame of the kind may have.
    pub fn of(stream: u32, kind: Kind, length: usize) -> io::Result<Self> {
        if length > kind.most_bytes() {
            let most = kind.most_bytes();
            let what = match kind {
                Kind::Open => "what is asked (a command line with its environment)".to_owned(),
                kind => format!("one frame ({kind:?})"),
            };
            let text = format!("{length} bytes of {what}; {most} are possible");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        Ok(Header { length, stream, kind })
    }

    /// Its bytes.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        // A length is at most 4 MiB.
        bytes[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.stream.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// No header has these bytes: what is wrong with it.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self> {
        let [a, b, c, d, e, f, g, h, kind, reserved @ ..] = bytes;
        let (length, stream) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let Some(kind) = KINDS.into_iter().find(|known| *known as u8 == kind) else {
            return Err(Error::Protocol(format!("a frame of the unknown kind {kind}")));
        };
        let (length, most) = (length as usize, kind.most_bytes());
        if length > most {
            let text = format!("a frame ({kind:?}) of {length} bytes; {most} are possible");
            return Err(Error::Protocol(text));
        }
        if reserved != [0; 3] {
            let text = format!("a frame ({kind:?}) with {reserved:?} where nothing is to be");
            return Err(Error::Protocol(text));
        }
        Ok(Header { length, stream, kind })
    }

    /// A frame of stream 0, as bytes.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn frame(kind: Kind, body: &[u8]) -> io::Result<Vec<u8>> {
        Ok([&Header::of(0, kind, body.len())?.encode()[..], body].concat())
    }

    /// Reads the next frame; nothing at the end of the bytes.
    ///
    /// # Errors
    /// What is there is no frame, or cannot be read.
    pub fn read(mut from: impl Read) -> Result<Option<(Self, Vec<u8>)>> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while let Some(rest @ [_, ..]) = header.get_mut(filled..) {
            match from.read(rest) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(Error::Protocol(format!("{filled} bytes of a header"))),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::os("reading a frame", error)),
            }
        }
        let header = Header::decode(header)?;
        let mut body = vec![0; header.length];
        from.read_exact(&mut body).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                Error::Protocol(format!("less than the {} bytes of a frame", header.length))
            }
            _ => Error::os("reading a frame", error),
        })?;
        Ok(Some((header, body)))
    }
}

/// A body that says this.
///
/// # Errors
/// Its type has no form in postcard.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value)
        .map_err(|error| Error::os("writing a frame", io::Error::other(error)))
}

/// Reads a body; bytes behind it are refused.
///
/// # Errors
/// It says nothing of this type.
pub fn decode<T: DeserializeOwned>(kind: Kind, body: &[u8]) -> Result<T> {
    let wrong =
        |why: String| Error::Protocol(format!("a frame ({kind:?}) that says nothing: {why}"));
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(wrong(format!("{} bytes are too many", rest.len()))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_out_as_it_went_in() {
        for kind in KINDS {
            let header = Header::of(u32::MAX, kind, kind.most_bytes()).unwrap();
            assert_eq!(Header::decode(header.encode()).unwrap(), header);
            assert!(Header::of(0, kind, kind.most_bytes() + 1).is_err());
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_by_what_is_wrong() {
        for (bytes, says) in [
            ([0, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0], "unknown kind 99"),
            ([1, 0x40, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0], "(Input) of 16385 bytes; 16384 are"),
            ([17, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0], "(Credit) of 17 bytes"),
            ([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0, 0, 0], "(Open) of 4294967295 bytes"),
            ([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 7, 0], "[0, 7, 0]"),
        ] {
            let error = Header::decode(bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let whole = [&Header::of(3, Kind::Input, 5).unwrap().encode()[..], b"hello"].concat();
        let read = Header::read(whole.as_slice()).unwrap().unwrap();
        assert_eq!((read.0.stream, read.1.as_slice()), (3, b"hello".as_slice()));
        assert!(Header::read(&b""[..]).unwrap().is_none());
        for cut in 1..whole.len() {
            assert!(Header::read(&whole[..cut]).is_err(), "a torn frame is not the end: {cut}");
        }
    }

    #[test]
    fn a_body_is_read_to_its_end_or_refused() {
        let body = encode(&(7_i32, "x")).unwrap();
        assert_eq!(decode::<(i32, String)>(Kind::Open, &body).unwrap(), (7, "x".to_owned()));
        let long = [body.as_slice(), b"y"].concat();
        let error = decode::<(i32, String)>(Kind::Open, &long).unwrap_err().to_string();
        assert!(error.contains("(Open)") && error.contains("1 bytes are too many"), "{error}");
        assert!(decode::<(i32, String)>(Kind::Open, &body[..1]).is_err());
    }
}
