//! PCI functions that a node is given and loses, while it does not run.

use kumiki_node_devices::pci::Function;
use kumiki_node_devices::record::{self, Record, incomplete};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::{Device, Dma};
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::sysfs;

use crate::node::Node;
use crate::{Error, ErrorKind, Result, Subject};

impl Node {
    /// Takes a PCI function from the host's driver for the node, from its next start on.
    /// The node's kernel can have its DMA read and write anything that this reaches.
    pub fn add_function(&self, function: Function, dma: Dma) -> Result<()> {
        let (device, entry, mut record) = self.at_rest_with_record()?;
        if record.pci.contains(&function) {
            return Err(Error::refused(
                ErrorKind::Exists,
                Subject::Function(function.to_string()),
                format!("node {} has PCI function {function} already", self.name),
            ));
        }
        nobody_has(&self.name, function)?;
        // Until it has left the host's driver nobody mounts what is on it.
        let claimed = function.check()?;
        if dma == Dma::Confined && !function.is_behind_iommu() {
            return Err(Error::refused(
                ErrorKind::Refused,
                Subject::Function(function.to_string()),
                format!(
                    "PCI function {function}: what it writes to memory is not confined to node {}, \
                     for this machine has no IOMMU before it, or its kernel does not use that \
                     (intel_iommu=on, amd_iommu=on): a fault of that kernel's driver can overwrite \
                     anything of this machine; with --dma-unconfined it is given all the same",
                    self.name
                ),
            ));
        }
        // First: whoever deletes the node gives it back.
        record.pci.push(function);
        if dma == Dma::Confined {
            record.confined.push(function);
        }
        self.set_record(&device, &entry, &record)?;
        let taken = function
            .take(dma, claimed)
            .and_then(|()| device.pci(function, function.numbers(), dma));
        taken.or_else(|error| {
            // It may never have been taken.
            let _ = function.back_if_taken();
            forget(&mut record, function);
            self.set_record(&device, &entry, &record)?;
            Err(error)
        })
    }

    /// Gives it back to the host's driver.
    pub fn remove_function(&self, function: Function) -> Result<()> {
        let (device, entry, mut record) = self.at_rest_with_record()?;
        if !record.pci.contains(&function) {
            return Err(Error::refused(
                ErrorKind::NotFound,
                Subject::Function(function.to_string()),
                format!("node {} has no PCI function {function}", self.name),
            ));
        }
        // It may have gone, or have been given back by hand.
        match device.pci_back(function, function.numbers()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => all_back(&[function])?,
        }
        forget(&mut record, function);
        self.set_record(&device, &entry, &record)
    }

    fn at_rest_with_record(&self) -> Result<(Device, sysfs::Status, Record)> {
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = self.at_rest(&device)?;
        entry.must_rest("runs: its kernel looks for PCI functions as it starts", "")?;
        let record = record::window(&device, &entry, Access::Read)?.1;
        let record = record.ok_or_else(|| incomplete(&self.name))?;
        Ok((device, entry, record))
    }
}

fn forget(record: &mut Record, function: Function) {
    record.pci.retain(|other| *other != function);
    record.confined.retain(|other| *other != function);
}

/// Refuses one that another node has.
fn nobody_has(name: &str, function: Function) -> Result<()> {
    for entry in sysfs::all(Holding::Node)?.iter().filter(|entry| entry.name != name) {
        let Ok(reader) = Device::read(Holding::Node, &entry.name) else { continue };
        let Ok((_, Some(record))) = record::window(&reader, entry, Access::Read) else { continue };
        if record.pci.contains(&function) {
            return Err(Error::refused(
                ErrorKind::Busy,
                Subject::Function(function.to_string()),
                format!("PCI function {function} is node {}'s", entry.name),
            ));
        }
    }
    Ok(())
}

/// Gives each back that is still there; the first failure is the error.
pub(super) fn all_back(functions: &[Function]) -> Result<()> {
    let mut failure = None;
    for function in functions.iter().filter(|function| function.is_there()) {
        if let Err(error) = function.back() {
            failure.get_or_insert(error);
        }
    }
    failure.map_or(Ok(()), Err)
}
