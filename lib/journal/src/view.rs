//! A folder that another process uses, which is looked at and not changed.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, bytes_at, names_in};

/// A folder without its lock. What is read of it may change meanwhile: who reads a fault reads again.
#[derive(Debug)]
pub struct FolderView(PathBuf);

impl FolderView {
    /// Gives a view of this folder, which is not made.
    pub fn at(path: &Path) -> FolderView {
        FolderView(path.to_owned())
    }
}

/// Refuses a change: the folder is another process'.
fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder is only looked at"))
}

impl Disk for FolderView {
    fn list(&self) -> io::Result<Vec<String>> {
        match names_in(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names,
        }
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.0.join(name))
    }

    fn read_at(&self, name: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        bytes_at(&self.0.join(name), at, bytes)
    }

    fn create(&self, _: &str, _: u64) -> io::Result<Box<dyn DiskFile>> {
        refused()
    }

    fn open(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        refused()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn name(&self) -> String {
        self.0.display().to_string()
    }
}
