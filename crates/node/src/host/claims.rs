//! Things of the host that only one node can have.

use crate::devices::{Assigned, clash};
use crate::host::device::Device;
use crate::host::stowed::record_of;
use crate::module::holding::Holding;
use crate::module::sysfs;
use crate::{Error, ErrorKind, Result};

/// Refuses devices of a node that another node has, or that clash with each other.
pub(crate) fn nobody_has(name: &str, devices: &[Assigned]) -> Result<()> {
    let refused = |device: &Assigned, what: String, other: &str| {
        Error::refused(
            ErrorKind::Busy,
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
