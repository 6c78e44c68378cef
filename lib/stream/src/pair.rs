//! Two ends of one stream within a process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::frame::{Header, Kind};
use crate::link::{Link, Other};
use crate::mailbox::Mailbox;

/// One end of a stream whose other end is in the same process. The other one sees that it was dropped.
#[derive(Debug)]
pub struct Paired {
    here: Arc<Mailbox>,
    there: Arc<Mailbox>,
    window: usize,
}

/// Two ends, with this window.
///
/// # Errors
/// The kernel gives no descriptor for a bell.
pub fn pair(window: usize) -> io::Result<(Paired, Paired)> {
    let (a, b) = (Arc::new(Mailbox::new()?), Arc::new(Mailbox::new()?));
    let one = Paired { here: Arc::clone(&a), there: Arc::clone(&b), window };
    Ok((one, Paired { here: b, there: a, window }))
}

impl Link for Paired {
    type Error = Error;

    fn window(&self) -> usize {
        self.window
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
        self.there.end();
        self.here.end();
    }
}
