//! Everything that can go wrong while measuring.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// An error of this crate. The text says what failed, on which thing, with
/// which value and limit, and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call of the harness or of a case failed.
    #[error("{what}: {source}")]
    Os {
        /// Operation, and the thing it was tried on.
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The machine lacks something; the case is skipped and the rest goes on.
    #[error("{feature} is not available: {needs}")]
    Unsupported {
        /// Feature that is missing.
        feature: String,
        /// Remedy.
        needs: String,
    },
    /// A value that the caller chose cannot work.
    #[error("{0}")]
    Invalid(String),
    /// The machine could not be read or used.
    #[error(transparent)]
    Sys(kumiki_sys::Error),
    /// A file could not be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The observer of the run could not keep what was measured.
    #[error("keeping what was measured: {0}")]
    Observer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A measured program broke its protocol or died.
    #[error("measured program {program}: {what}")]
    Program {
        /// Path of the program.
        program: String,
        /// Its failure, in words.
        what: String,
    },
}

kumiki_sys::debug_is_display!(Error);

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<kumiki_sys::Error> for Error {
    /// Keeps the type of an error by which the machine lacks something, so that the case is
    /// skipped.
    fn from(error: kumiki_sys::Error) -> Self {
        match error {
            kumiki_sys::Error::Unsupported { feature, needs } => {
                Error::Unsupported { feature, needs }
            }
            error => Error::Sys(error),
        }
    }
}

impl Error {
    /// Wraps the calling thread's `errno`.
    pub fn last_os(what: impl Into<String>) -> Self {
        Error::os(what, io::Error::last_os_error())
    }

    /// Wraps an I/O error (or a `rustix::io::Errno`).
    pub fn os(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Os { what: what.into(), source: source.into() }
    }

    /// A thing that the machine lacks, and what it would take.
    pub fn unsupported(feature: impl Into<String>, needs: impl Into<String>) -> Self {
        Error::Unsupported { feature: feature.into(), needs: needs.into() }
    }
}

/// The calling thread's `errno`, which takes no memory.
pub fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
