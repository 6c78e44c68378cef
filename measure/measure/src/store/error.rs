//! Everything that can go wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

use super::RunId;
use super::writable::why_not;
use crate::schema::SCHEMA;

/// An error of the store. It names the file and says the way out. A file that
/// cannot be read as a store is never changed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No data folder could be found.
    #[error("no folder for data ({0}): set XDG_DATA_HOME or HOME, or name a database with --db")]
    NoDataFolder(String),
    /// The file or its folder could not be used.
    #[error("{}: {source}: choose another database with --db", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The file can be read only.
    #[error("{}: not writable ({why}): mend that, or choose another database with --db", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// Reason for which it cannot be written.
        why: String,
    },
    /// The file cannot be read as long as nothing can be written.
    #[error(
        "{}: {} holds what is not in the database yet, and putting it there takes writing, which \
         cannot be done here ({why}): copy both files to another folder, and name the copy with \
         --db",
        path.display(), log.display()
    )]
    Unfinished {
        /// The file.
        path: PathBuf,
        /// The log or journal beside it.
        log: PathBuf,
        /// Reason for which it cannot be written.
        why: String,
    },
    /// The file is something else.
    #[error(
        "{}: not a database of Kumiki ({found}); it is left as it is: choose another with --db",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Kind of file that it is instead.
        found: String,
    },
    /// The file has a schema that this program does not know.
    #[error(
        "{}: database has schema {found}, this program knows schema {SCHEMA}; it is left as it \
         is: update Kumiki, or choose another with --db",
        path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: i64,
    },
    /// The file's structure is damaged.
    #[error(
        "{}: database is damaged ({source}); it is left as it is: move it away and start a new \
         one, or choose another with --db (`sqlite3 FILE .recover` saves what can be read)",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's finding.
        #[source]
        source: rusqlite::Error,
    },
    /// A stored row that cannot be right.
    #[error(
        "{}: run {run}: {what}; other runs are not affected, `kumiki results rm {run}` removes \
         this one",
        path.display()
    )]
    DamagedRun {
        /// The file.
        path: PathBuf,
        /// The run.
        run: RunId,
        /// Row, and its fault.
        what: String,
    },
    /// Another process kept the database locked.
    #[error(
        "{}: locked by another process for {} s: wait for it to end, or choose another database \
         with --db",
        path.display(),
        super::PATIENCE.as_secs()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// No run has this id or label.
    #[error("{}: no run {asked:?}; there {known}", path.display())]
    NoSuchRun {
        /// The file.
        path: PathBuf,
        /// Name of the run that was asked for.
        asked: String,
        /// "is none yet", or those that exist.
        known: String,
    },
    /// A value that no measurement yields; it is not stored.
    #[error("not stored: {0}")]
    Inconsistent(String),
    /// Anything else that SQLite says.
    #[error("{}: {what}: {source}", path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// Operation that was tried.
        what: &'static str,
        /// SQLite's reason: disk full, …
        #[source]
        source: rusqlite::Error,
    },
}

kumiki_sys::debug_is_display!(Error);

impl Error {
    /// The error about a database that cannot be written, with the reason.
    pub(super) fn read_only(path: &Path) -> Self {
        Error::ReadOnly { path: path.to_owned(), why: why_not(path) }
    }
}

/// The store's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
