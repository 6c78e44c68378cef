//! Opens a database, or makes a new one, and touches nothing else.
//!
//! One that cannot be written, because of permissions, a read-only file system or
//! a full disk, is opened for reading.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kumiki_sys::pause::pause;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use rustix::fs::{Access as Permission, access};

use super::error::{Error, Result};
use super::writable::{JOURNAL, SHM, WAL, beside, why_not};
use super::{PATIENCE, sql};
use crate::schema::SCHEMA;

/// `PRAGMA application_id` of our databases: "KUMI".
const APPLICATION_ID: i64 = 0x4b55_4d49;

/// Only facts: every figure is derived on load. Samples are doubles, little
/// endian, one after the other: exact, 8 bytes instead of about 18, and read
/// without parsing; `kumiki results export` is the readable form. The other
/// facts of a visit are JSON, so that SQL can ask for them (`facts ->>
/// '$.activity.steal_ns'`) and a further one needs no new schema.
const TABLES: &str = "
    CREATE TABLE runs (
        id      INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given out twice
        run     TEXT NOT NULL,                      -- schema::Run as JSON
        machine TEXT NOT NULL                       -- schema::Machine as JSON
    ) STRICT;
    CREATE TABLE visits (
        id      INTEGER PRIMARY KEY,
        run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
        name    TEXT NOT NULL,                      -- the case
        params  TEXT NOT NULL,                      -- schema::Params as JSON
        unit    TEXT NOT NULL,                      -- schema::Unit as JSON
        cpus    TEXT NOT NULL,                      -- JSON array
        pass    INTEGER NOT NULL,                   -- which round of the run
        facts   TEXT NOT NULL,                      -- schema::Visit as JSON, samples empty
        samples BLOB NOT NULL                       -- f64, little endian
    ) STRICT;
    -- Also lists a run's rows without reading their samples.
    CREATE INDEX visits_by_row ON visits(run, name, params, unit);
    CREATE TABLE skipped (
        id      INTEGER PRIMARY KEY,
        run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
        name    TEXT NOT NULL,
        params  TEXT NOT NULL,
        reason  TEXT NOT NULL
    ) STRICT;
    CREATE INDEX skipped_by_run ON skipped(run);
";

/// Kind of file that was found.
enum Found {
    /// Nothing yet.
    Nothing,
    /// A database of ours, of this schema.
    Ours,
}

/// Way in which a file is opened.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    /// Opens for writing; the file is made if it is not there.
    Write,
    /// Opens for reading, beside others that write. The log wants shared memory, in a file beside
    /// the database, and so a folder and a disk with room for it.
    Read,
    /// Opens for reading the file alone: no log, no lock, nothing beside it. Right as long as
    /// nobody writes to it; who does needs the folder and the room that are lacking here.
    Sealed,
}

/// Opens the database at `path`, which is made if it is not there.
pub(super) fn open(path: &Path) -> Result<Connection> {
    let found = look(path)?;
    let failed = |e| sql(path, "opening the database", e);
    let writer = connect(path, Access::Write)
        .and_then(|connection| Ok(configure(&connection)?.then_some(connection)));
    let mut connection = match writer {
        Ok(Some(connection)) => connection,
        Ok(None) if matches!(found, Found::Ours) => return reader(path),
        Ok(None) => return Err(Error::read_only(path)),
        Err(e) if matches!(found, Found::Ours) && may_be_unwritable(&e) => {
            return reader(path);
        }
        Err(e) => return Err(failed(e)),
    };
    if let Found::Nothing = found {
        create(&mut connection).map_err(|e| sql(path, "creating the database", e))?;
        // Another program may have made something else of it meanwhile.
        look(path)?;
    }
    Ok(connection)
}

/// A connection that has been read from, of whatever kind works here.
fn reader(path: &Path) -> Result<Connection> {
    let read = |access| {
        let connection = connect(path, access)?;
        count_objects(&connection)?;
        Ok(connection)
    };
    let unfinished = unfinished(path);
    // A reader that may not write leaves a log and its memory that nobody may write,
    // not even the owner who makes the database writable again. Who has it open now
    // has both; otherwise they are not needed.
    let is_open = [WAL, SHM].iter().any(|end| beside(path, end).exists());
    let may_write = access(path, Permission::WRITE_OK).is_ok();
    if !may_write && !is_open && unfinished.is_none() {
        return read(Access::Sealed).map_err(|e| sql(path, "reading the database", e));
    }
    let outcome = match (read(Access::Read), unfinished) {
        // A process was killed within a transaction and left its rollback
        // journal; nobody can read the file before that is played back.
        (Err(e), Some(log)) if may_be_unwritable(&e) => match read(Access::Write) {
            Err(e) if may_be_unwritable(&e) => {
                return Err(Error::Unfinished { path: path.to_owned(), log, why: why_not(path) });
            }
            outcome => outcome,
        },
        (Err(e), None) if may_be_unwritable(&e) => read(Access::Sealed),
        (outcome, _) => outcome,
    };
    outcome.map_err(|e| sql(path, "reading the database", e))
}

/// True for SQLite's errors where it may not write, or has no room to.
fn may_be_unwritable(e: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure};
    let codes = [CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure];
    e.sqlite_error_code().is_some_and(|code| codes.contains(&code))
}

/// The log or journal beside a database whose content is not in it yet.
fn unfinished(path: &Path) -> Option<PathBuf> {
    let has_content = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.len() > 0);
    [WAL, JOURNAL].map(|end| beside(path, end)).into_iter().find(has_content)
}

/// Looks at a file through a connection that cannot write, and refuses what is
/// not ours before one that can is opened.
fn look(path: &Path) -> Result<Found> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(Path::new(""));
            if !folder.as_os_str().is_empty() {
                let io = |source| Error::Io { path: folder.to_owned(), source };
                fs::create_dir_all(folder).map_err(io)?;
            }
            return Ok(Found::Nothing);
        }
        Err(e) => return Err(io(e)),
        Ok(metadata) if metadata.is_dir() => {
            return Err(io(io::ErrorKind::IsADirectory.into()));
        }
        Ok(metadata) if !metadata.is_file() => {
            let found = "it is not a regular file".to_owned();
            return Err(Error::Foreign { path: path.to_owned(), found });
        }
        Ok(metadata) if metadata.len() == 0 => return Ok(Found::Nothing),
        Ok(_) => {}
    }
    let foreign = |found: &str| Error::Foreign { path: path.to_owned(), found: found.to_owned() };
    let mut magic = Vec::new();
    File::open(path).and_then(|file| file.take(16).read_to_end(&mut magic)).map_err(io)?;
    if magic != b"SQLite format 3\0" {
        return Err(foreign("it is not an SQLite database"));
    }

    let identity = identity(&reader(path)?);
    match identity.map_err(|e| sql(path, "reading the database", e))? {
        // Made and not yet filled: by another process, or by one that died.
        (0, 0, 0) => Ok(Found::Nothing),
        (APPLICATION_ID, version, _) if version == i64::from(SCHEMA) => Ok(Found::Ours),
        (APPLICATION_ID, found, _) => Err(Error::Schema { path: path.to_owned(), found }),
        _ => Err(foreign("it is the SQLite database of another program")),
    }
}

/// Application id, schema version and number of tables and indexes, all of one
/// moment: another process may be making the database.
fn identity(connection: &Connection) -> rusqlite::Result<(i64, i64, i64)> {
    let moment = connection.unchecked_transaction()?;
    let objects = count_objects(&moment)?;
    let pragma = |name| moment.pragma_query_value(None, name, |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?, objects))
}

fn count_objects(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

/// A path is a path, whatever characters it has; so it is a URI only where an
/// option can be said in no other way, and then with all of them escaped.
fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let flags = match access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Sealed => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
    };
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match access {
        Access::Sealed => Connection::open_with_flags(sealed(path), flags)?,
        _ => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// The URI by which SQLite takes a file for one that nobody writes to
/// (<https://www.sqlite.org/uri.html>).
fn sealed(path: &Path) -> OsString {
    // Relative paths have no URI; one that cannot be made absolute is not found.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
    let escaped = path.as_os_str().as_bytes().iter().map(|byte| match plain(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    OsStr::new(&format!("file://{}?immutable=1", escaped.collect::<String>())).to_owned()
}

/// Prepares a connection; false if it cannot write.
///
/// Write-ahead log: a commit is one append, and a process that is killed at
/// any moment leaves either the whole record or none; the next one to open the
/// database takes over the log. `synchronous = NORMAL` syncs at checkpoints
/// only, because a sync after each visit would disturb the next one: what a
/// power failure takes is the last visits, never the database.
fn configure(connection: &Connection) -> rusqlite::Result<bool> {
    // SQLite quietly opens a file that may not be written for reading.
    if connection.is_readonly("main")? {
        return Ok(false);
    }
    // Where no shared memory can be had it stays with its rollback journal,
    // which survives a kill as well.
    patiently(|| connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())))?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(true)
}

/// Repeats what SQLite gives up at once, not after the busy timeout: turning
/// to the write-ahead log while another process does the same.
fn patiently<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(e)
                if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < PATIENCE =>
            {
                pause(Duration::from_millis(5));
            }
            outcome => return outcome,
        }
    }
}

/// Makes the tables, unless another process was faster.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if count_objects(&transaction)? > 0 {
        return Ok(());
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()
}
