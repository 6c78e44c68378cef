//! Contents of files while an image is read: numbered files in a folder of our own.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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
    /// In an empty folder.
    pub(crate) fn new(folder: &Path, limit_bytes: u64) -> Self {
        Store { folder: folder.to_owned(), count: 0, left: limit_bytes }
    }

    pub(crate) fn place(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Keeps all that comes. Of what fails in reading says the caller more.
    pub(crate) fn keep(
        &mut self,
        content: &mut dyn Read,
    ) -> Result<Result<u64, TooMuch>, KeepFailed> {
        let number = self.count;
        let place = self.place(number);
        let failed = |error| KeepFailed::Here(Error::file(&place, error));
        let mut file = File::create_new(&place).map_err(failed)?;
        let mut counted = content.take(self.left.saturating_add(1));
        let kept = io::copy(&mut counted, &mut file).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => KeepFailed::Here(Error::file(&place, error)),
            _ => KeepFailed::There(error),
        })?;
        let Some(left) = self.left.checked_sub(kept) else { return Ok(Err(TooMuch)) };
        self.left = left;
        self.count += 1;
        Ok(Ok(number))
    }
}

/// Which side of a copy has failed.
pub(crate) enum KeepFailed {
    Here(Error),
    There(io::Error),
}
