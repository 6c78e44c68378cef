//! Everything that can go wrong with files that are kept.

use std::io;

/// An error of this crate.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is not what was written.
    #[error(
        "{file} is not what was written, at byte {at}: {why}; restore the folder from a copy, or move it \
         away and begin with an empty one"
    )]
    Rotten {
        /// The file.
        file: String,
        /// Offset of the fault.
        at: u64,
        /// The fault.
        why: String,
    },
    /// The system's refusal.
    #[error("{what}: {source}")]
    Io {
        /// The step.
        what: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

kumiki_sys::debug_is_display!(Error);

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
