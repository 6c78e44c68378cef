//! Kicks and calls of queues as eventfds, by the module osnode-eventfd: between node and vhost, or a
//! disk's thread, without a turn of this process, which hears only what is left for it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use kumiki_node_wire::module::{abi, requests};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::{Error, Result};

/// The module's device; `None` on a machine that has not loaded it.
pub(super) fn open() -> Result<Option<File>> {
    match OpenOptions::new().read(true).write(true).open(abi::EVENTFD_DEVICE) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(abi::EVENTFD_DEVICE, error)),
    }
}

/// Eventfds of a node, all released with the value.
pub(super) struct Irqfds {
    file: File,
    left: EventFd,
}

impl Irqfds {
    /// `server` is a descriptor that serves the node. From now on its bells are heard here.
    pub(super) fn attach(file: File, server: &File) -> Result<Self> {
        let left = EventFd::new(EFD_NONBLOCK).map_err(|error| Error::os("an eventfd", error))?;
        let mut wanted = abi::Wires { server: server.as_raw_fd(), left: left.as_raw_fd() };
        requests::eventfd_attach(&file, &mut wanted)
            .map_err(|error| Error::os("hearing a node's bell by osnode-eventfd", error))?;
        Ok(Irqfds { file, left })
    }

    /// Written when there is something that no queue's eventfd is for.
    pub(super) fn left(&self) -> &EventFd {
        &self.left
    }

    /// A queue's: `kick` is written for the node, and what is written to `call` interrupts it.
    pub(super) fn connect(
        &self,
        (slot, queue): (usize, usize),
        kick: &EventFd,
        call: &EventFd,
    ) -> Result<()> {
        let (kick, call) = (kick.as_raw_fd(), call.as_raw_fd());
        let mut wanted = abi::Wire { slot: slot as u32, queue: queue as u32, kick, call };
        requests::eventfd_connect(&self.file, &mut wanted)
            .map_err(|error| Error::os(format!("eventfds of queue {queue} in slot {slot}"), error))
    }

    /// A slot's: nobody writes or hears them any more.
    pub(super) fn disconnect(&self, slot: usize) -> Result<()> {
        requests::eventfd_disconnect(&self.file, &mut (slot as u32))
            .map_err(|error| Error::os(format!("eventfds of slot {slot}"), error))
    }
}
