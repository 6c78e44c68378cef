//! What a lab and the agent in its machine say to each other, over one byte
//! stream in each direction.
//!
//! ```text
//!            lab                                   agent
//!             │ ◄──────────────────────── Hello      │   stream 0
//!   stream n  │ Start ───────────────────────────►   │   a command begins
//!             │ Input, InputEnd, Signal, Resize ──►  │
//!             │ ◄─────────── Output, Error, Credit   │
//!             │ Credit ──────────────────────────►   │
//!             │ ◄────────────────── Ended | Failed   │   stream n is over
//!             │ PowerOff ────────────────────────►   │   stream 0
//! ```
//!
//! Streams share the connection, so nobody may fill it: a sender has [`WINDOW`]
//! bytes a stream and direction, and more only as the reader's `Credit` says
//! that it has passed bytes on. A command whose output nobody reads then waits,
//! as it would at a pipe, and the others go on.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// Bytes of data that may be under way in one direction of a stream.
pub(crate) const WINDOW: usize = 256 << 10;
/// Bytes of data in one frame, at most.
pub(crate) const CHUNK: usize = 16 << 10;
/// More than a frame ever has: arguments and environment are limited to 2 MiB
/// together by exec itself.
const LIMIT_BYTES: usize = 4 << 20;

/// The stream of what concerns the whole machine.
pub(crate) const MACHINE: u32 = 0;

/// A message of one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(crate) stream: u32,
    pub(crate) message: Message,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The machine is up, this many milliseconds after its kernel began.
    /// `debug_exit`: its end can have a code.
    Hello { uptime_ms: u64, debug_exit: bool },
    /// Run a command.
    Start(Start),
    /// Bytes for the command's standard input.
    Input(#[serde(with = "serde_bytes")] Vec<u8>),
    /// No more of them.
    InputEnd,
    /// A signal for the command and its children.
    Signal(i32),
    /// The terminal has another size.
    Resize(Size),
    /// Bytes from standard output.
    Output(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Bytes from standard error.
    Error(#[serde(with = "serde_bytes")] Vec<u8>),
    /// This many bytes have been passed on, and as many more may come.
    Credit(u32),
    /// The command has ended.
    Ended(Exit),
    /// The command could not be run; the exit code that a shell gives, and the reason.
    Failed(u8, String),
    /// End the machine with this debug-exit code.
    PowerOff(u8),
}

/// A command to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The program and its arguments.
    pub(crate) words: Vec<Vec<u8>>,
    /// Variables beside those that every command has.
    pub(crate) environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Written into the kernel log when the command has ended.
    pub(crate) mark: u64,
    /// A terminal of this size instead of pipes.
    pub(crate) terminal: Option<Size>,
}

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// Exit by itself, with this code.
    Code(u8),
    /// End by this signal.
    Signal(u8),
}

impl Exit {
    /// The code that a shell gives for it: 128 and the signal's number if it was
    /// ended by one.
    pub fn code(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(number) => 128_u8.wrapping_add(number),
        }
    }
}

/// Beginning of such a line.
pub(crate) const MARK: &str = "kumiki-lab: command ";

/// The line by which a command's end is found in the kernel log.
pub(crate) fn mark(number: u64) -> String {
    format!("{MARK}{number:016x} has ended")
}

impl Frame {
    pub(crate) fn write(&self, mut to: impl Write) -> io::Result<()> {
        let body = postcard::to_stdvec(self).map_err(io::Error::other)?;
        if body.len() > LIMIT_BYTES {
            let what = format!("a message of {} bytes; {LIMIT_BYTES} are possible", body.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend(body);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// The next frame; nothing at the end of the stream.
    pub(crate) fn read(mut from: impl Read) -> io::Result<Option<Frame>> {
        let mut length = [0; 4];
        match from.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > LIMIT_BYTES {
            let what = format!("a message of {length} bytes; {LIMIT_BYTES} are possible");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        let frame = postcard::from_bytes(&body);
        frame.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let start = Start {
            words: vec![b"cat".to_vec(), vec![0xff, 0xfe]],
            environment: vec![(b"A".to_vec(), b"".to_vec())],
            mark: u64::MAX,
            terminal: Some(Size { rows: 24, columns: 80 }),
        };
        let messages = [
            Message::Hello { uptime_ms: 1, debug_exit: true },
            Message::Start(start),
            Message::Output((0..=255).collect()),
            Message::Ended(Exit::Signal(9)),
            Message::Failed(127, "no".into()),
        ];
        let mut bytes = Vec::new();
        for (stream, message) in (0..).zip(messages.clone()) {
            Frame { stream, message }.write(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        for message in messages {
            assert_eq!(Frame::read(&mut rest).unwrap().unwrap().message, message);
        }
        assert_eq!(Frame::read(&mut rest).unwrap(), None);
        let torn = &bytes[..bytes.len() - 1];
        let mut rest = torn;
        while let Ok(frame) = Frame::read(&mut rest) {
            assert!(frame.is_some(), "a torn frame is not the end");
        }
        assert!(Frame::read([255; 8].as_slice()).is_err());
    }

    #[test]
    fn a_signal_has_the_code_that_shells_give() {
        assert_eq!(Exit::Signal(9).code(), 137);
        assert_eq!(Exit::Code(255).code(), 255);
    }
}
