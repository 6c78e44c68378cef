//! Errors of container images.

use std::io;
use std::path::PathBuf;

/// An error of this crate: what failed, on which thing, and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// An image that cannot be a root, by what is in it.
    #[error("{image}: {problem}")]
    Image {
        /// The image, as it was given.
        image: String,
        /// Entry or field, its value, the limit, and the way out.
        problem: String,
    },
    /// The machine lacks something.
    #[error("{feature} is not available: {needs}")]
    Unsupported {
        /// Missing thing.
        feature: String,
        /// Thing to install.
        needs: String,
    },
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::File { path: path.into(), source }
    }
}

/// Fault of an entry, without the name of its image.
pub(crate) type Fault = String;
