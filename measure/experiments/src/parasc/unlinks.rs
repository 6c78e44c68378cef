//! Files removed from their directory.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use kumiki_measure::case::Place;
use kumiki_measure::{Error, Result};
use kumiki_parasc::op::Unlinkat;
use rustix::fs::{AtFlags, OFlags};

use super::batch::{Calls, make};
use super::files::{Names, open};
use super::running::Running;

/// Empty files, which are there again each time.
pub(super) struct Unlinks {
    requests: Vec<Unlinkat<Rc<OwnedFd>, CString>>,
    folders: Vec<Names>,
}

impl Unlinks {
    /// All in one directory, whose lock the calls want one after the other.
    pub(super) fn one(place: &Place, count: usize) -> Result<Self> {
        Ok(Unlinks::of(vec![Names::new(place, count)?]))
    }

    /// Each in a directory of its own.
    pub(super) fn many(place: &Place, count: usize) -> Result<Self> {
        let folders = (0..count).map(|_| Names::new(place, 1)).collect::<Result<_>>()?;
        Ok(Unlinks::of(folders))
    }

    fn of(folders: Vec<Names>) -> Self {
        let each = files(&folders);
        let request = |(folder, name): (&Rc<_>, &CString)| {
            Unlinkat::new(Rc::clone(folder), name.clone(), AtFlags::empty())
        };
        let requests = each.map(request).collect();
        Unlinks { requests, folders }
    }
}

fn files(folders: &[Names]) -> impl Iterator<Item = (&Rc<OwnedFd>, &CString)> {
    folders.iter().flat_map(|of| of.names.iter().map(|name| (&of.folder, name)))
}

impl Calls for Unlinks {
    const PREPARED: bool = true;

    fn prepare(&mut self) -> Result<()> {
        let made = |(folder, name): (&Rc<OwnedFd>, _)| {
            open(folder.as_fd(), name, OFlags::CREATE | OFlags::WRONLY).map(drop)
        };
        files(&self.folders).try_for_each(made)
    }

    fn plain(&mut self) -> Result<()> {
        let unlink = |(folder, name): (&Rc<OwnedFd>, &CString)| {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())
        };
        files(&self.folders).try_for_each(unlink).map_err(|errno| Error::os("unlinkat", errno))
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        make(running, &mut self.requests, |()| ())
    }
}
