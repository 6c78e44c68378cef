//! A node that sleeps where it is, its cpus with the host, until somebody asks for it.

use std::fs::File;

use kumiki_node_devices::record::{self, Record, incomplete};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};

use super::{Node, Stopped};
use crate::host::cpus;
use crate::node::session::Session;
use crate::{Error, ErrorKind, Result, Subject};

impl Node {
    /// Has its kernel sleep in its own memory, and gives its cpus back to the host.
    pub(crate) fn doze(&self) -> Result<()> {
        let (device, window, mut record) = self.that_may_sleep()?;
        Session::open_by_host(&self.name)?.sleep(true)?;
        // Nothing of it executes from here on.
        self.end(&device)?;
        record.idle = true;
        window.set_record(&record.to_json()?);
        device.cpus_back()
    }

    /// Has a node that sleeps in its own memory go on. Its cards are these TAPs' from the first
    /// frame on, by the cards' slots: what came meanwhile waits in them.
    pub(crate) fn wake(&self, taps: Vec<(usize, File)>) -> Result<()> {
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        let (window, record) = record::window(&device, &entry, Access::Write)?;
        let record = record.ok_or_else(|| incomplete(&self.name))?;
        if !record.idle {
            // Somebody else was quicker, or has stopped it for good.
            return Ok(());
        }
        if window.word() != abi::WORD_KEPT {
            return Err(Error::refused(
                ErrorKind::Damaged,
                Subject::node(&self.name),
                format!(
                    "node {} does not sleep in its memory any more: kumiki node start {0}",
                    self.name
                ),
            ));
        }
        let entry = with_cpus(&device, entry, &record)?;
        let asleep = window.asleep();
        let node = Node { name: self.name.clone() };
        Stopped { node, device, entry, window, record, taps }.wake_here(&asleep)
    }
}

/// Takes the cpus from the host again that a node gave back when it fell asleep.
pub(super) fn with_cpus(
    device: &Device,
    entry: sysfs::Status,
    record: &Record,
) -> Result<sysfs::Status> {
    if !record.idle {
        return Ok(entry);
    }
    let has = |cpu: &u32| entry.cpus.iter().any(|(other, _)| other == cpu);
    for &cpu in record.cpus.iter().filter(|cpu| !has(cpu)) {
        cpus::set_online(cpu, false)?;
        device.cpu(cpu)?;
    }
    sysfs::one(Holding::Node, &entry.name)
}
