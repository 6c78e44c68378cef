//! Many streams over one byte stream in each direction.
//!
//! ```text
//!   Link  Link  Link            Link  Link  Link
//!     │     │     │ send          ▲     ▲     ▲  one mailbox each
//!     ▼     ▼     ▼               │     │     │
//!   ┌───────────────┐ bytes   ┌───────────────────┐
//!   │ writer, a lock│────────►│ a thread that     │
//!   └───────────────┘         │ reads and never   │
//!                             │ waits for anybody │
//!                             └───────────────────┘
//! ```
//!
//! Who reads the bytes puts frames into mailboxes and waits for nobody, so that a stream that is not read
//! holds up no other; credit bounds what a mailbox has. What breaks the protocol ends the whole: bytes
//! behind it mean nothing.
//!
//! Each side numbers the streams that it opens, one side by odd and the other by even numbers. No
//! number is used twice, so what comes late for one that is over is known, and dropped.

mod relay;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::frame::{Header, Kind, encode};
use crate::link::{Link, Other};
use crate::mailbox::Mailbox;

pub use relay::relay;

/// Cost of the data of one stream that may be under way in one direction.
const WINDOW: usize = 256 << 10;

/// Streams that one side may have open at a time: what it costs the other is 80 MiB.
pub const MOST_STREAMS: usize = 256;

/// A side of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that asks most.
    Near,
    /// The other one.
    Far,
}

/// One side of many streams. Any number of threads may open some.
#[derive(Clone)]
pub struct Mux(Arc<Shared>);

/// None when the other side is gone.
type Writer = Option<Box<dyn Write + Send>>;

struct Shared {
    writer: Mutex<Writer>,
    streams: Mutex<Streams>,
}

struct Streams {
    open: HashMap<u32, Arc<Mailbox>>,
    /// Number of the next stream that is opened here; none when they are used up.
    next: Option<u32>,
    is_over: bool,
}

/// Streams that the other side opens.
#[derive(Debug)]
pub struct Incoming {
    links: Receiver<MuxLink>,
    reading: JoinHandle<Result<()>>,
}

/// One end of one of the streams. Dropped before it is over, it is closed.
pub struct MuxLink {
    mux: Mux,
    number: u32,
    mailbox: Arc<Mailbox>,
}

impl fmt::Debug for Mux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mux").finish_non_exhaustive()
    }
}

impl fmt::Debug for MuxLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MuxLink").field("number", &self.number).finish_non_exhaustive()
    }
}

fn frame(number: u32, kind: Kind, body: &[u8]) -> Result<Vec<u8>> {
    let header = Header::of(number, kind, body.len());
    let header = header.map_err(|error| Error::os("sending a frame", error))?;
    Ok([&header.encode(), body].concat())
}

fn written(writer: &mut Writer, bytes: &[u8]) -> Result<()> {
    let writer = writer.as_mut().ok_or(Error::Gone)?;
    // Who reads sees why.
    writer.write_all(bytes).and_then(|()| writer.flush()).map_err(|_| Error::Gone)
}

fn parity(side: Side) -> u32 {
    match side {
        Side::Near => 1,
        Side::Far => 0,
    }
}

impl Mux {
    /// One side of streams over these bytes, and those that the other side opens, `most` at a time.
    ///
    /// # Errors
    /// No thread is to be had.
    pub fn over(
        side: Side,
        most: usize,
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> io::Result<(Self, Incoming)> {
        let streams =
            Streams { open: HashMap::new(), next: Some(2 - parity(side)), is_over: false };
        let shared =
            Shared { writer: Mutex::new(Some(Box::new(writer))), streams: Mutex::new(streams) };
        let mux = Mux(Arc::new(shared));
        let (tell, links) = channel();
        let reading = mux.clone();
        let read = move || {
            let outcome = reading.read(side, most, reader, &tell);
            let mut streams = reading.streams();
            streams.is_over = true;
            // Whoever waits sees that nothing comes.
            streams.open.drain().for_each(|(_, mailbox)| mailbox.end());
            drop(streams);
            // Nobody is to wait for the writer to know that no stream comes.
            drop(tell);
            // The other side sees it, too, when nobody is just writing.
            *reading.writer() = None;
            outcome
        };
        let reading = thread::Builder::new().name("streams".to_owned()).spawn(read)?;
        Ok((mux, Incoming { links, reading }))
    }

    /// Reads frames until there are no more, or one breaks the protocol.
    fn read(
        &self,
        side: Side,
        most: usize,
        mut reader: impl Read,
        tell: &Sender<MuxLink>,
    ) -> Result<()> {
        let mut last = 0;
        while let Some((header, body)) = Header::read(&mut reader)? {
            let Header { stream: number, kind, .. } = header;
            let mut streams = self.streams();
            let mailbox = match kind {
                Kind::Open => {
                    // Of its own parity, and one that was not there.
                    if number % 2 == parity(side) || number <= last {
                        let text = format!("a stream of the number {number} after {last}");
                        return Err(Error::Protocol(text));
                    }
                    let theirs = streams.open.keys().filter(|one| **one % 2 != parity(side));
                    if theirs.count() >= most {
                        let text = format!("one stream more than the {most} that may be open");
                        return Err(Error::Protocol(text));
                    }
                    last = number;
                    let mailbox = Mailbox::new()
                        .map_err(|error| Error::os("making the bell of a stream", error))?;
                    let mailbox = Arc::new(mailbox);
                    streams.open.insert(number, Arc::clone(&mailbox));
                    let link = MuxLink { mux: self.clone(), number, mailbox: Arc::clone(&mailbox) };
                    // Nobody takes any: it closes itself, when the lock is free.
                    drop(streams);
                    mailbox.put((kind, body), WINDOW)?;
                    drop(tell.send(link));
                    continue;
                }
                Kind::Close => streams.open.remove(&number),
                _ => streams.open.get(&number).map(Arc::clone),
            };
            drop(streams);
            // Late, for one that is over.
            let Some(mailbox) = mailbox else { continue };
            mailbox.put((kind, body), WINDOW)?;
        }
        Ok(())
    }

    /// Opens a stream with a wish.
    ///
    /// # Errors
    /// The other side is gone, or too many are open.
    pub fn open(&self, wish: &impl Serialize) -> Result<MuxLink> {
        self.open_with(&encode(wish)?)
    }

    /// Opens a stream with the body of an opening.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_with(&self, body: &[u8]) -> Result<MuxLink> {
        let mailbox = Mailbox::new().map_err(|error| Error::os("making a bell", error))?;
        let mailbox = Arc::new(mailbox);
        let full = || {
            let text = format!("{MOST_STREAMS} streams are open, which is the limit: end some");
            Error::os("opening a stream", io::Error::other(text))
        };
        // Numbers go over in their order.
        let mut writer = self.writer();
        let mut streams = self.streams();
        if streams.is_over {
            return Err(Error::Gone);
        }
        let number = streams.next.filter(|_| streams.open.len() < MOST_STREAMS).ok_or_else(full)?;
        // Before its number is taken: this may be refused.
        let bytes = frame(number, Kind::Open, body)?;
        streams.next = number.checked_add(2);
        streams.open.insert(number, Arc::clone(&mailbox));
        drop(streams);
        let link = MuxLink { mux: self.clone(), number, mailbox };
        let sent = written(&mut writer, &bytes);
        // Which a link that is dropped takes.
        drop(writer);
        sent.map(|()| link)
    }

    /// True when the other side can no longer be reached.
    pub fn is_over(&self) -> bool {
        self.streams().is_over
    }

    fn send(&self, number: u32, kind: Kind, body: &[u8]) -> Result<()> {
        let bytes = frame(number, kind, body)?;
        written(&mut self.writer(), &bytes)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.0.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Incoming {
    /// Waits for the next one; none when the other side is gone.
    pub fn next(&self) -> Option<MuxLink> {
        self.links.recv().ok()
    }

    /// Waits so long for the next one.
    ///
    /// # Errors
    /// None has come: in time, or at all.
    pub fn next_within(&self, limit: Duration) -> Result<MuxLink, RecvTimeoutError> {
        self.links.recv_timeout(limit)
    }

    /// Waits for the end of the thread that reads, when [`next`](Self::next) has said that there are no
    /// more: nothing of the streams is left then but their other ends here. Tells the cause.
    ///
    /// # Errors
    /// Bytes that could not be read, or were no frames.
    pub fn end(self) -> Result<()> {
        self.reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl MuxLink {
    /// Way to say something beside its data from another thread.
    pub fn handle(&self) -> MuxHandle {
        MuxHandle { mux: self.mux.clone(), number: self.number }
    }

    fn is_open(&self) -> bool {
        self.mux.streams().open.contains_key(&self.number)
    }
}

/// Way to say something beside the data of a stream, from any thread.
#[derive(Clone, Debug)]
pub struct MuxHandle {
    mux: Mux,
    number: u32,
}

impl MuxHandle {
    /// Sends a frame that is no data.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn send(&self, kind: Kind, body: &impl Serialize) -> Result<()> {
        self.mux.send(self.number, kind, &encode(body)?)
    }
}

impl Link for MuxLink {
    type Error = Error;

    fn window(&self) -> usize {
        WINDOW
    }

    fn send(&self, kind: Kind, body: &[u8]) -> Result<()> {
        if kind == Kind::Close {
            self.mux.streams().open.remove(&self.number);
        }
        self.mux.send(self.number, kind, body)
    }

    fn receive(&self) -> Result<Option<(Kind, Vec<u8>)>> {
        self.mailbox.take()
    }

    fn wait(&self, others: &[Other<'_>], limit: Option<Duration>) -> Result<()> {
        self.mailbox.wait(others, limit)
    }
}

impl AsFd for MuxLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.bell().as_fd()
    }
}

impl Drop for MuxLink {
    fn drop(&mut self) {
        if self.is_open() {
            let _ = self.send(Kind::Close, &[]);
        }
    }
}
