//! One end of a stream: frames in both directions, and credit for what is data.
//!
//! # Credit
//! A sender has a window of credit to begin with. A frame of data costs its bytes and
//! [`FRAME_COST`]; who receives it gives that back when it has *passed on* the bytes, not when it has
//! taken the frame. So what is under way, in the link and at the receiver, is less than a window,
//! whoever is slow. Frames that are no data cost nothing and are never held up by it: a signal
//! reaches a program that reads no input.
//!
//! ```text
//!   room (the sender)  +  under way  +  owed (passed on, and not told yet)  =  window
//! ```
//!
//! Credit is told when half a window is owed. A sender without room is never left so: then what is
//! owed is less than half, more than half is under way, and passing that on makes it due.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::frame::{Kind, decode, encode};
use crate::link::Link;

/// Cost of a frame of data beside its bytes: about what a receiver needs to keep it.
pub const FRAME_COST: usize = 64;

/// One end of a stream.
#[derive(Debug)]
pub struct Stream<L> {
    link: L,
    /// Credit for what is sent.
    room: usize,
    /// Credit that the other end has.
    due: usize,
    /// Cost of what was passed on and not told.
    owed: usize,
}

/// Something that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The wish that a stream begins with.
    Open(Vec<u8>),
    /// Data, to be [passed on](Stream::passed_on).
    Data(Kind, Vec<u8>),
    /// No more input.
    End,
    /// A signal.
    Signal(i32),
    /// A terminal's new size.
    Resize(Size),
    /// The stream is over, with this answer.
    Close(Vec<u8>),
}

/// A terminal's size, characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Rows from top to bottom.
    pub rows: u16,
    /// Columns from left to right.
    pub columns: u16,
}

fn cost(bytes: usize) -> usize {
    bytes + FRAME_COST
}

impl<L: Link> Stream<L> {
    /// A stream over this link, of which nothing was sent yet.
    pub fn new(link: L) -> Self {
        let window = link.window();
        Stream { link, room: window, due: window, owed: 0 }
    }

    /// Its link.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// Bytes of data that may be sent now in one frame.
    pub fn room(&self) -> usize {
        self.room.saturating_sub(FRAME_COST).min(self.link.chunk())
    }

    /// Sends data, [`room`](Self::room) bytes at most.
    ///
    /// # Errors
    /// As of the link.
    ///
    /// # Panics
    /// If these are more.
    pub fn send_data(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), L::Error> {
        assert!(bytes.len() <= self.room(), "{} bytes, for which there is no credit", bytes.len());
        self.link.send(kind, bytes)?;
        self.room -= cost(bytes.len());
        Ok(())
    }

    /// Sends something else.
    ///
    /// # Errors
    /// As of the link.
    pub fn send(&self, kind: Kind, value: &impl Serialize) -> Result<(), L::Error> {
        self.link.send(kind, &encode(value)?)
    }

    /// Sends what has no body.
    ///
    /// # Errors
    /// As of the link.
    pub fn send_plain(&self, kind: Kind) -> Result<(), L::Error> {
        self.link.send(kind, &[])
    }

    /// Takes what has arrived, if something has.
    ///
    /// # Errors
    /// As of the link; and what breaks the protocol.
    pub fn receive(&mut self) -> Result<Option<Message>, L::Error> {
        while let Some((kind, body)) = self.link.receive()? {
            return Ok(Some(match kind {
                Kind::Open => Message::Open(body),
                Kind::Input | Kind::Output | Kind::Errors => {
                    let (cost, due) = (cost(body.len()), self.due);
                    self.due = due.checked_sub(cost).ok_or_else(|| {
                        let sent = body.len();
                        Error::Protocol(format!("{sent} bytes ({kind:?}) with a credit of {due}"))
                    })?;
                    Message::Data(kind, body)
                }
                Kind::End => Message::End,
                Kind::Signal => Message::Signal(decode(kind, &body)?),
                Kind::Resize => Message::Resize(decode(kind, &body)?),
                Kind::Close => Message::Close(body),
                Kind::Credit => {
                    let more: u32 = decode(kind, &body)?;
                    let (room, window) =
                        (self.room.saturating_add(more as usize), self.link.window());
                    if room > window {
                        let text = format!("a credit of {more}, which makes {room} of {window}");
                        return Err(Error::Protocol(text).into());
                    }
                    self.room = room;
                    continue;
                }
            }));
        }
        Ok(None)
    }

    /// Data of so many bytes was passed on, whole, as it arrived in one frame.
    ///
    /// # Errors
    /// As of the link.
    pub fn passed_on(&mut self, bytes: usize) -> Result<(), L::Error> {
        self.owed += cost(bytes);
        if self.owed >= self.link.window() / 2 {
            // A window is far less than 4 GiB.
            self.send(Kind::Credit, &(self.owed as u32))?;
            self.due += self.owed;
            self.owed = 0;
        }
        Ok(())
    }
}
