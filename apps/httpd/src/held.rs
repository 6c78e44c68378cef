//! Open files, closed where a close may sleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kumiki_parasc::tries::asks_nobody;

use crate::devices::{Devices, device};

/// An open file. On a file system that may ask a server (FUSE, NFS) a close waits for it: a thread of
/// the device makes it, not a worker.
#[derive(Debug)]
pub(crate) struct Held {
    /// The file, until the value is dropped.
    file: Option<OwnedFd>,
    device: u64,
    /// Devices whose threads close it, if it is not closed at once.
    closes: Option<Arc<Devices>>,
}

impl Held {
    pub(crate) fn new(file: OwnedFd, device: u64, devices: &Arc<Devices>) -> Self {
        let closes = (!asks_nobody(&file, device)).then(|| Arc::clone(devices));
        Held { file: Some(file), device, closes }
    }

    /// A folder: its close waits for nobody.
    pub(crate) fn folder(folder: OwnedFd) -> Self {
        let device = device(&folder).unwrap_or_default();
        Held { file: Some(folder), device, closes: None }
    }

    /// True if its file system answers questions about names from memory.
    pub(crate) fn asks_nobody(&self) -> bool {
        self.closes.is_none()
    }

    /// The device that it is on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.file {
            Some(file) => file.as_fd(),
            None => unreachable!("it is taken when it is dropped"),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(file), Some(devices)) = (self.file.take(), &self.closes) {
            devices.close(self.device, file);
        }
    }
}
