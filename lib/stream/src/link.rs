//! The way of one stream's frames to its other end.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::error::Error;
use crate::frame::{CHUNK_BYTES, Kind};

/// A descriptor to be waited for, and what for.
pub type Other<'a> = (BorrowedFd<'a>, PollFlags);

/// One end of one stream, as far as it carries whole frames, in order.
pub trait Link {
    /// Failure of it.
    type Error: From<Error>;

    /// Cost of the data that may be under way in one direction.
    fn window(&self) -> usize;

    /// Bytes of data in one frame, at most.
    fn chunk(&self) -> usize {
        CHUNK_BYTES
    }

    /// Sends a frame; waits where there is no room.
    ///
    /// # Errors
    /// The other end is gone, or the body is too long.
    fn send(&self, kind: Kind, body: &[u8]) -> Result<(), Self::Error>;

    /// Takes the next frame, if one is there.
    ///
    /// # Errors
    /// None is there and the other end is gone, or what is there is no frame.
    fn receive(&self) -> Result<Option<(Kind, Vec<u8>)>, Self::Error>;

    /// Sleeps until a frame comes, one of `others` is ready, or the time is over; returns early at will.
    /// Called when [`receive`](Self::receive) has given nothing.
    ///
    /// # Errors
    /// The kernel does not let it wait.
    fn wait(&self, others: &[Other<'_>], limit: Option<Duration>) -> Result<(), Self::Error>;
}

impl<L: Link + ?Sized> Link for &L {
    type Error = L::Error;

    fn window(&self) -> usize {
        (**self).window()
    }

    fn chunk(&self) -> usize {
        (**self).chunk()
    }

    fn send(&self, kind: Kind, body: &[u8]) -> Result<(), Self::Error> {
        (**self).send(kind, body)
    }

    fn receive(&self) -> Result<Option<(Kind, Vec<u8>)>, Self::Error> {
        (**self).receive()
    }

    fn wait(&self, others: &[Other<'_>], limit: Option<Duration>) -> Result<(), Self::Error> {
        (**self).wait(others, limit)
    }
}
