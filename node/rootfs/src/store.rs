//! Contents of files while an image is read: numbered files in a folder of our own.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::sparse::{Map, Part};
use crate::{Error, Result};

/// Contents by their numbers.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    count: u64,
    /// Bytes that may still come.
    left: u64,
}

/// More is read than may be.
pub(crate) struct TooMuch;

impl Store {
    /// Makes a store in an empty folder.
    pub(crate) fn new(folder: &Path, limit_bytes: u64) -> Self {
        Store { folder: folder.to_owned(), count: 0, left: limit_bytes }
    }

    pub(crate) fn place(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Keeps a file of `size` bytes: all that comes, or the parts of a map with holes between
    /// them. Of what fails in reading says the caller more.
    pub(crate) fn keep(
        &mut self,
        content: &mut impl Read,
        size: u64,
        map: Option<&Map>,
    ) -> Result<Result<u64, TooMuch>, KeepFailed> {
        // Before anything is written: holes count, as memory has none.
        let Some(left) = self.left.checked_sub(size) else { return Ok(Err(TooMuch)) };
        let number = self.count;
        let place = self.place(number);
        let failed = |error| KeepFailed::Here(Error::file(&place, error));
        let mut file = File::create_new(&place).map_err(failed)?;
        let whole = [Part { offset: 0, length: size }];
        for part in map.map_or(&whole[..], |map| &map.parts) {
            file.seek(SeekFrom::Start(part.offset)).map_err(failed)?;
            let copied = io::copy(&mut content.take(part.length), &mut file);
            let copied = copied.map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => KeepFailed::Here(Error::file(&place, error)),
                _ => KeepFailed::There(error),
            })?;
            if copied < part.length {
                return Err(KeepFailed::There(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        file.set_len(size).map_err(failed)?;
        self.left = left;
        self.count += 1;
        Ok(Ok(number))
    }
}

/// Side of a copy that has failed.
pub(crate) enum KeepFailed {
    Here(Error),
    There(io::Error),
}
