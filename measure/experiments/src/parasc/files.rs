//! Files for calls to work on.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use kumiki_measure::case::Place;
use kumiki_measure::{Error, Result};
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

pub(super) const PAGE: usize = 4096;

/// A folder with some files of no bytes, removed with them on drop.
pub(super) struct Names {
    pub(super) folder: Rc<OwnedFd>,
    /// Relative to the folder.
    pub(super) names: Vec<CString>,
    _removed_on_drop: TempDir,
}

impl Names {
    pub(super) fn new(place: &Place, count: usize) -> Result<Self> {
        let failed = |source| Error::File { path: place.scratch.clone(), source };
        let removed = TempDir::new_in(&place.scratch).map_err(failed)?;
        let folder = File::open(removed.path()).map_err(failed)?;
        let name = |i| CString::new(format!("file{i}")).map_err(|e| Error::Invalid(e.to_string()));
        let names = (0..count).map(name).collect::<Result<Vec<_>>>()?;
        let files = Names { folder: Rc::new(folder.into()), names, _removed_on_drop: removed };
        files.open(OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
        Ok(files)
    }

    /// The names for `count` calls. Calls next to each other have the same, so
    /// that those who begin at either end do not meet at a file before the middle.
    pub(super) fn spread(&self, count: usize) -> impl Iterator<Item = &CString> {
        (0..count).map(move |i| &self.names[i * self.names.len() / count])
    }

    /// Opens all of them.
    pub(super) fn open(&self, flags: OFlags) -> Result<Vec<Rc<OwnedFd>>> {
        let open = |name: &CString| {
            let file = open(self.folder.as_fd(), name, flags)?;
            Ok(Rc::new(file))
        };
        self.names.iter().map(open).collect()
    }
}

/// Opens a file, or makes it.
#[inline]
pub(super) fn open(folder: BorrowedFd<'_>, name: &CString, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::openat(folder, name, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| Error::os("open a file of the case's own", errno))
}

/// Room for what is read.
pub(super) fn page() -> Box<[u8; PAGE]> {
    Box::new([0; PAGE])
}
