//! A file as a stream of bytes, for tokio.

use std::fmt;
use std::future::Future;
use std::io::{self, SeekFrom};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use kumiki_parasc::Pending;
use kumiki_parasc::op::{Aligned, Pread};
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

use crate::engine::{ended, engine};
use crate::file::File;
use crate::memory;

/// The most that is read at once where it would sleep.
const PIECE: usize = 256 * 1024;
/// Unit of its size, and half of its least: devices want multiples of it of files with `O_DIRECT`.
const UNIT: usize = 4096;

type Cold = Pread<Arc<OwnedFd>, Aligned>;

/// Reads a file from a position on that is this reader's own: for what takes tokio's
/// `AsyncRead`, as a response's body.
///
/// What is in memory is read into the caller's buffer at once. Tokio counts how much a task
/// does by its own budget, and this takes part in it.
pub struct Reader {
    file: File,
    position: u64,
    /// A read under way, of the bytes at `position`.
    reading: Option<Pending<Cold>>,
    /// Bytes read and not yet taken.
    rest: Option<Aligned>,
    taken: usize,
    sought: Option<u64>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reader { file, position, .. } = self;
        f.debug_struct("Reader")
            .field("file", file)
            .field("position", position)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// A reader that begins at `position`.
    pub fn new(file: File, position: u64) -> Self {
        Reader { file, position, reading: None, rest: None, taken: 0, sought: None }
    }

    fn take_rest(&mut self, buffer: &mut ReadBuf<'_>) {
        let Some(all) = &self.rest else { return };
        let rest = all.as_ref().get(self.taken..).unwrap_or_default();
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.taken += count;
        self.position += count as u64;
        if count == rest.len() {
            (self.rest, self.taken) = (None, 0);
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let budget = ready!(tokio::task::coop::poll_proceed(context));
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if this.rest.is_none() && this.reading.is_none() {
            match this.file.try_read_slice(buffer.initialize_unfilled(), this.position) {
                Some(read) => {
                    let count = read?;
                    buffer.advance(count);
                    this.position += count as u64;
                    budget.made_progress();
                    return Poll::Ready(Ok(()));
                }
                None => {
                    let bytes = buffer.remaining().clamp(2 * UNIT, PIECE);
                    let room = memory::aligned(bytes.next_multiple_of(UNIT))?;
                    let read = Pread::new(this.file.shared(), this.position, room);
                    this.reading = Some(engine()?.submit(read));
                }
            }
        }
        if let Some(reading) = &mut this.reading {
            let outcome = ready!(Pin::new(reading).poll(context));
            this.reading = None;
            let made = ended(outcome)?;
            made.output?;
            this.rest = Some(made.operation.into_buffer());
            this.taken = 0;
        }
        budget.made_progress();
        this.take_rest(buffer);
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Reader {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        let this = self.get_mut();
        let base = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(by) => (this.position, by),
            SeekFrom::End(by) => (rustix::fs::fstat(&this.file)?.st_size as u64, by),
        };
        let position = base.0.checked_add_signed(base.1).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a position before the file's start")
        })?;
        (this.reading, this.sought) = (None, Some(position));
        (this.rest, this.position, this.taken) = (None, position, 0);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let this = self.get_mut();
        Poll::Ready(Ok(this.sought.take().unwrap_or(this.position)))
    }
}
