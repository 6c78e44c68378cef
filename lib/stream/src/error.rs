//! Errors of streams.

use std::io;

/// A failure of a stream, or of what goes through it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error("{what}: {source}")]
    Os {
        /// Action that was tried.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The other end sent what it may not.
    #[error("the other end sent {0}")]
    Protocol(String),
    /// The other end has gone, or the way to it.
    #[error("the other end is gone")]
    Gone,
    /// Reading for a program, or passing on what it wrote.
    #[error("passing on {what}: {source}")]
    Passing {
        /// Name of the stream.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

kumiki_sys::debug_is_display!(Error);

/// Result of what a stream does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn os(what: &str, source: impl Into<io::Error>) -> Self {
        Error::Os { what: what.to_owned(), source: source.into() }
    }
}
