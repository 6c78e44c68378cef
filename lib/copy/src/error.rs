//! Everything that can go wrong with a copy.

use std::time::Duration;

use kumiki_wait::Deadline;

/// Reason for which a copy was not made. Of one that was refused nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The two sides differ in length.
    #[error(
        "copy of {from} bytes to a destination of {to} bytes: both must have the same length; \
         take a part of the longer one"
    )]
    Length {
        /// Length of the destination, bytes.
        to: usize,
        /// Length of the source, bytes.
        from: usize,
    },
    /// The two sides have bytes in common.
    #[error(
        "copy of {len} bytes from {from:#x} to {to:#x}: the two overlap, and two threads keep \
         no order between their bytes; use memmove"
    )]
    Overlap {
        /// Address of the destination.
        to: usize,
        /// Address of the source.
        from: usize,
        /// Bytes asked for.
        len: usize,
    },
    /// A null pointer with a length above 0.
    #[error("copy of {len} bytes: the {side} is a null pointer")]
    Null {
        /// `destination` or `source`.
        side: &'static str,
        /// Bytes asked for.
        len: usize,
    },
    /// More than an object can have, or past the end of the address space.
    #[error("copy of {len} bytes at {start:#x}: no memory is that long; check the length")]
    TooLong {
        /// Address of the side that is too long.
        start: usize,
        /// Bytes asked for.
        len: usize,
    },
    /// [`Method::Block`](crate::Method::Block) with blocks of no bytes.
    #[error("copy by blocks of 0 bytes never ends; use 256, 1024 or 4096")]
    EmptyBlock,
    /// The helper is at a job that would be waited for. Only with a time limit.
    #[error("a job was forked and not joined yet, and a copy would wait for it: join it first")]
    Busy,
    /// The time limit was over before all had begun. What had begun has ended.
    #[error(
        "{done} of {of} {what} when the time limit of {timeout:?} was over: allow more, or try \
         again"
    )]
    TimedOut {
        /// The things that were counted: bytes, or measurements.
        what: &'static str,
        /// Number that were done in time, the first ones.
        done: usize,
        /// Number that were to be done.
        of: usize,
        /// The limit.
        timeout: Duration,
    },
}

kumiki_sys::debug_is_display!(Error);

impl Error {
    /// Not all was `done` in time; `what` says of what.
    pub(crate) fn late(deadline: Deadline, what: &'static str, done: usize, of: usize) -> Error {
        Error::TimedOut { what, done, of, timeout: deadline.timeout() }
    }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
