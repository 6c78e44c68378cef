//! A folder of a case's own.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use tempfile::TempDir;

use kumiki_measure::case::{Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

/// A folder in [`Place::scratch`], removed with its contents on drop. Names in
/// it are given relative to its descriptor, so that where the scratch folder
/// lies does not count.
pub(super) struct Folder {
    descriptor: OwnedFd,
    _removed_on_drop: TempDir,
}

impl Folder {
    pub(super) fn new(place: &Place) -> Result<Self> {
        let failed = |source| Error::File { path: place.scratch.clone(), source };
        let folder = TempDir::new_in(&place.scratch).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor =
            rustix::fs::open(folder.path(), flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        Ok(Folder { descriptor, _removed_on_drop: folder })
    }

    /// Makes an empty file and returns it open for writing.
    pub(super) fn create(&self, name: &CStr) -> Result<OwnedFd> {
        create(self.descriptor.as_fd(), name)
    }

    pub(super) fn make_folder(&self, name: &CStr) -> Result<()> {
        make_folder(self.descriptor.as_fd(), name)
    }

    /// A workload of one operation in this folder, given its descriptor.
    pub(super) fn each<F>(self, operation: F) -> EachIn<F>
    where
        F: FnMut(BorrowedFd<'_>) -> Result<()>,
    {
        EachIn { operation, folder: self }
    }
}

/// A [`Workload`] from a closure that runs one operation in a [`Folder`].
pub(super) struct EachIn<F> {
    operation: F,
    folder: Folder,
}

impl<F: FnMut(BorrowedFd<'_>) -> Result<()>> Workload for EachIn<F> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let folder = self.folder.descriptor.as_fd();
        meter.time(|| (0..iterations).try_for_each(|_| (self.operation)(folder)))
    }
}

/// Makes an empty file that must be new and returns it open for writing.
pub(super) fn create(folder: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| failed("create", name, e))
}

pub(super) fn make_folder(folder: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    rustix::fs::mkdirat(folder, name, Mode::RWXU).map_err(|e| failed("mkdir", name, e))
}

/// Removes a name: a file's, or with `REMOVEDIR` an empty folder's.
pub(super) fn remove(folder: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<()> {
    rustix::fs::unlinkat(folder, name, flags).map_err(|e| failed("remove", name, e))
}

/// The error of a call on a name.
pub(super) fn failed(call: &str, name: &CStr, errno: rustix::io::Errno) -> Error {
    Error::os(format!("{call} {}", name.to_string_lossy()), errno)
}
