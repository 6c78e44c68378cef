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
    /// A file is of a form that this version does not read.
    #[error(
        "{file} is of the form {form}, which versions before this one wrote, and this one does not read: begin \
         with an empty folder, and move what is needed there by the version that wrote it"
    )]
    EarlierForm {
        /// The file.
        file: String,
        /// Its first bytes.
        form: &'static str,
    },
    /// The disk has no room for what a start writes.
    #[error(
        "{folder} has no room for the {bytes} bytes that a start writes first: {source}; make room on its disk, \
         or copy the folder to another disk and start from there. Nothing that it keeps was changed"
    )]
    NoRoom {
        /// The folder.
        folder: String,
        /// Bytes that are needed.
        bytes: u64,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A record is longer than a frame may be.
    #[error(
        "{bytes} bytes were to be one frame of a log, and {most} is the most: write less in one operation"
    )]
    TooLong {
        /// Bytes of it.
        bytes: u64,
        /// The most.
        most: u64,
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
