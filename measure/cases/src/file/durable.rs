//! Bringing what was written to the disk.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::folder::Folder;
use kumiki_measure::case::{Case, Level};
use kumiki_measure::error::{Error, Result};

const PAGE: [u8; 4096] = [0x5a; 4096];

/// The cases.
pub(super) fn cases() -> [Case; 2] {
    let data_only = "write 4 KiB over a file and wait until they are on disk (fdatasync)";
    [
        sync(
            "file.fsync",
            "write 4 KiB over a file and wait until they and its times are on disk (fsync)",
            |file| rustix::fs::fsync(file),
        ),
        sync("file.fdatasync", data_only, |file| rustix::fs::fdatasync(file)).level(Level::Default),
    ]
}

fn sync(
    name: &'static str,
    about: &'static str,
    sync: fn(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Case {
    use std::os::fd::AsFd;

    Case::new(name, about, move |place| {
        let folder = Folder::new(place)?;
        let file = folder.create(c"file")?;
        Ok(folder.each(move |_| {
            rustix::io::pwrite(&file, &PAGE, 0).map_err(|e| Error::os("pwrite 4 KiB", e))?;
            sync(file.as_fd()).map_err(|e| Error::os(name, e))
        }))
    })
}
