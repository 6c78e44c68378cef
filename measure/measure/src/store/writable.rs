//! What keeps a database from being written.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access as Permission, access, statvfs};

/// Files that SQLite keeps beside a database: the log, its shared memory, or where that cannot be
/// had the rollback journal.
pub(super) const WAL: &str = "-wal";
pub(super) const SHM: &str = "-shm";
pub(super) const JOURNAL: &str = "-journal";

pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Reason for which a database cannot be written.
pub(super) fn why_not(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let refused = |path: &Path| access(path, Permission::WRITE_OK).err().map(io::Error::from);
    if let Some(error) = refused(path) {
        return error.to_string();
    }
    if let Some(error) = refused(folder) {
        return format!("its folder: {error}");
    }
    for file in [WAL, SHM, JOURNAL].map(|end| beside(path, end)) {
        if let Some(error) = refused(&file).filter(|_| file.exists()) {
            return format!("{}: {error}", file.display());
        }
    }
    match statvfs(path) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM => {
            "its file system is full".to_owned()
        }
        _ => "SQLite cannot write to it".to_owned(),
    }
}

/// Bytes that SQLite takes beside a database that it opens: two steps of the
/// file for the log's shared memory.
const ROOM: u64 = 64 << 10;
