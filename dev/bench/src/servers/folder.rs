//! Files to read, on a disk if the build's folder is on one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

/// A folder with files, removed in the end.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Result<Self> {
        let program = std::env::current_exe().context("finding our own program")?;
        let beside = program.parent().context("the program's folder")?;
        Ok(Folder(tempfile::tempdir_in(beside).context("making a folder for files")?))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file of so many bytes, open for reading, in memory.
    pub(super) fn file(&self, name: &str, bytes: usize) -> Result<File> {
        let path = self.0.path().join(name);
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        let piece: Vec<u8> = (0..1 << 16).map(|at| (at % 251) as u8).collect();
        let mut left = bytes;
        while left > 0 {
            let part = left.min(piece.len());
            out.write_all(&piece[..part])?;
            left -= part;
        }
        out.flush()?;
        Ok(File::open(&path)?)
    }
}

/// Has the kernel forget what it has of the file's content.
pub(super) fn make_cold(file: &File) -> Result<()> {
    file.sync_data()?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}
