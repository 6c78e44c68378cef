//! Reading a folder.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::{RawDir, SeekFrom};

use super::folder::Folder;
use kumiki_measure::case::Case;
use kumiki_measure::error::{Error, Result};

/// Bytes that the C library's `readdir` asks for at once.
const BUFFER_BYTES: usize = 32 << 10;

/// The cases.
pub(super) fn cases() -> [Case; 2] {
    [10, 1000].map(|entries| {
        let about = "rewind a folder and read all its names (getdents64)";
        let case = Case::new("file.getdents", about, move |place| {
            let folder = Folder::new(place)?;
            for entry in 0..entries {
                let name = format!("entry-{entry:06}");
                folder.create(&CString::new(name).expect("no NUL in a number"))?;
            }
            let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
            Ok(folder.each(move |folder| {
                // The two others are `.` and `..`.
                match count(folder, &mut buffer)? {
                    found if found == entries + 2 => Ok(()),
                    found => Err(Error::Invalid(format!(
                        "a folder made with {entries} entries lists {found} instead of two more; \
                         leave the scratch folder to this program alone"
                    ))),
                }
            }))
        });
        case.with("entries", entries)
    })
}

/// Entries of a folder, read from its beginning.
fn count(folder: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> Result<u64> {
    rustix::fs::seek(folder, SeekFrom::Start(0)).map_err(|e| Error::os("rewind a folder", e))?;
    let mut listing = RawDir::new(folder, buffer);
    let mut entries = 0;
    while let Some(entry) = listing.next() {
        entry.map_err(|e| Error::os("getdents64", e))?;
        entries += 1;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn every_entry_is_read_every_time() {
        let folder = tempfile::tempdir().unwrap();
        for entry in 0..100 {
            std::fs::write(folder.path().join(entry.to_string()), "").unwrap();
        }
        let descriptor = std::fs::File::open(folder.path()).unwrap();
        // Small, so that one listing takes many calls.
        let mut buffer = vec![MaybeUninit::uninit(); 512];
        for _ in 0..3 {
            assert_eq!(count(descriptor.as_fd(), &mut buffer).unwrap(), 102);
        }
    }
}
