//! Errors of nodes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of this crate: what failed, on which thing, and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A kernel or an initramfs cannot be used.
    #[error(transparent)]
    Boot(#[from] kumiki_boot::Error),
    /// The kernel refused something.
    #[error("{what}: {source}")]
    Os {
        /// Action that was tried, on which thing.
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The machine lacks something.
    #[error("{feature} is not available: {needs}")]
    Unsupported {
        /// Missing thing.
        feature: String,
        /// Amount that it would take.
        needs: String,
    },
    /// What was asked for cannot be, or not now.
    #[error("{0}")]
    Refused(String),
    /// A machine file asks for what cannot be.
    #[error("{}:{line}: {problem}", file.display())]
    MachineFile {
        /// The file.
        file: PathBuf,
        /// Where in it.
        line: usize,
        /// Key, value, limit, and what to do.
        problem: String,
    },
    /// A step for a machine file failed, and what was done before it was undone.
    #[error("{step}: {source}; undone: {undone} step{} before it{left}", if *.undone == 1 { "" } else { "s" })]
    RolledBack {
        /// The step that failed.
        step: String,
        /// Why.
        source: Box<Error>,
        /// Steps that had been done.
        undone: usize,
        /// Things that could not be undone, and why.
        left: String,
    },
    /// A node came to its end before it was what was waited for.
    #[error("node {name} ended before it was ready: {word}{log}")]
    Ended {
        /// Which node.
        name: String,
        /// Cause of its end, and how far its start came.
        word: String,
        /// The end of its log, with a heading.
        log: String,
    },
    /// A node did not answer in time.
    #[error("node {name} {what} within {limit:?}; its last words are {word}{log}")]
    Silent {
        /// Which node.
        name: String,
        /// Thing that it did not do.
        what: &'static str,
        /// How long it had.
        limit: Duration,
        /// Its last word about itself, and how far its start came.
        word: String,
        /// The end of its log, with a heading.
        log: String,
    },
    /// The other side of the shared window broke the protocol.
    #[error("the node's channel holds {0}; its agent is damaged: stop the node")]
    Protocol(String),
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn os(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Os { what: what.into(), source: source.into() }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::File { path: path.into(), source }
    }
}
