//! Two ends of one stream within a process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::frame::{CHUNK_BYTES, Header, Kind};
use crate::link::{Link, Other};
use crate::mailbox::Mailbox;

/// One end of a stream whose other end is in the same process. The other one sees that it was dropped.
#[derive(Debug)]
pub struct Paired {
    here: Arc<Mailbox>,
    there: Arc<Mailbox>,
    window: usize,
    chunk: usize,
}

/// Two ends, with this window.
///
/// # Errors
/// The kernel gives no descriptor for a bell.
pub fn pair(window: usize) -> io::Result<(Paired, Paired)> {
    let (a, b) = (Arc::new(Mailbox::new()?), Arc::new(Mailbox::new()?));
    let (chunk, here, there) = (CHUNK_BYTES, Arc::clone(&a), Arc::clone(&b));
    let one = Paired { here, there, window, chunk };
    Ok((one, Paired { here: b, there: a, window, chunk }))
}

impl Paired {
    /// Limits frames to so much data, one byte at least.
    #[must_use]
    pub fn with_chunk(mut self, bytes: usize) -> Self {
        self.chunk = bytes.clamp(1, CHUNK_BYTES);
        self
    }

    /// Ends the stream for both, as dropping it does.
    pub fn end(&self) {
        self.there.end();
        self.here.end();
    }
}

impl Link for Paired {
    type Error = Error;

    fn window(&self) -> usize {
        self.window
    }

    fn chunk(&self) -> usize {
        self.chunk
    }

    fn send(&self, kind: Kind, body: &[u8]) -> Result<()> {
        Header::of(0, kind, body.len()).map_err(|error| Error::os("sending a frame", error))?;
        self.there.put((kind, body.to_vec()), self.window)
    }

    fn receive(&self) -> Result<Option<(Kind, Vec<u8>)>> {
        self.here.take()
    }

    fn wait(&self, others: &[Other<'_>], limit: Option<Duration>) -> Result<()> {
        self.here.wait(others, limit)
    }
}

impl Drop for Paired {
    fn drop(&mut self) {
        self.end();
    }
}
