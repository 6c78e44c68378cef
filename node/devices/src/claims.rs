//! Things of the host that only one node can have.

use std::io;

use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::sysfs;

use crate::block;
use crate::spec::{Assigned, DeviceSpec, Disk, clash};
use crate::stowed::record_of;
use crate::{Error, ErrorKind, Result, Subject};

/// Refuses devices of a node that another node has, or that clash with each other.
pub fn nobody_has(name: &str, devices: &[Assigned]) -> Result<()> {
    let refused = |device: &Assigned, what: String, other: &str| {
        Error::refused(
            ErrorKind::Busy,
            Subject::device(name, &device.name),
            format!("node {name}: {}: {what} is {other}'s already: choose another", device.name),
        )
    };
    for (n, device) in devices.iter().enumerate() {
        for other in &devices[..n] {
            if let Some(what) = clash(name, device, name, other) {
                return Err(refused(device, what, &other.name));
            }
        }
    }
    for entry in sysfs::all(Holding::Node)?.iter().filter(|entry| entry.name != name) {
        let Ok(reader) = Device::read(Holding::Node, &entry.name) else { continue };
        let Ok(Some(record)) = record_of(&reader, entry) else { continue };
        for device in devices {
            for other in &record.devices {
                if let Some(what) = clash(name, device, &entry.name, other) {
                    return Err(refused(device, what, &format!("node {}", entry.name)));
                }
            }
        }
    }
    Ok(())
}

/// Refuses disks that this machine has in use itself. One that is not there may come.
pub fn host_leaves_all(devices: &[Assigned]) -> Result<()> {
    for device in devices {
        let DeviceSpec::Disk(disk) = &device.device else { continue };
        match host_leaves(disk) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Refuses one such disk; two that read it can have it.
pub fn host_leaves(disk: &Disk) -> Result<()> {
    let Some(used) = block::of_file(&disk.file)?.filter(|used| !used.read_only || !disk.read_only)
    else {
        return Ok(());
    };
    Err(Error::refused(
        ErrorKind::Busy,
        Subject::File(disk.file.clone()),
        format!(
            "disk {} {}: two kernels that have it, one of which writes, destroy what is on it: end \
             that use, or have both read only",
            disk.file.display(),
            used.how
        ),
    ))
}
