//! Calls on an open file that touch neither its name nor its contents.

use std::hint::black_box;

use rustix::fs::{FlockOperation, SeekFrom, fcntl_lock};

use super::warm::warm_file;
use kumiki_measure::case::{Case, Each, Level};
use kumiki_measure::error::Error;

/// The cases.
pub(super) fn cases() -> [Case; 3] {
    [
        Case::new("file.dup_close", "duplicate a descriptor and close it", |place| {
            let file = warm_file(&place.scratch, 0)?;
            Ok(Each(move || rustix::io::dup(&file).map(drop).map_err(|e| Error::os("dup", e))))
        }),
        Case::new("file.lseek", "set a file's position", |place| {
            let file = warm_file(&place.scratch, 0)?;
            Ok(Each(move || {
                black_box(rustix::fs::seek(&file, SeekFrom::Start(1)))
                    .map(drop)
                    .map_err(|e| Error::os("lseek", e))
            }))
        })
        .level(Level::Default),
        Case::new("file.lock_unlock", "lock a file and unlock it (fcntl, two calls)", |place| {
            let file = warm_file(&place.scratch, 0)?;
            Ok(Each(move || {
                [FlockOperation::LockExclusive, FlockOperation::Unlock]
                    .into_iter()
                    .try_for_each(|operation| fcntl_lock(&file, operation))
                    .map_err(|e| Error::os("fcntl lock", e))
            }))
        })
        .level(Level::Default),
    ]
}
