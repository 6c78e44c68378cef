//! Devices that nodes are given and lose, running or not.

use kumiki_node_devices::claims::{host_leaves_all, nobody_has};
use kumiki_node_devices::record::{self, Record, incomplete};
use kumiki_node_devices::runtime;
use kumiki_node_devices::serve::{self, Control};
use kumiki_node_devices::spec::{Assigned, DeviceSpec, assign};
use kumiki_node_devices::stowed::record_of;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use serde::Serialize;

use crate::node::Node;
use crate::{Error, ErrorKind, Result, Subject};

/// A node's device, as it is listed.
#[derive(Debug, Serialize)]
pub struct DeviceInfo {
    /// Its name in the node's commands.
    pub name: String,
    /// `net`, `disk`, `share`, `vsock`, `rng`, `console` or `pci`.
    pub kind: &'static str,
    /// The thing of the host that it is.
    pub what: String,
    /// A card's hardware address.
    pub mac: Option<String>,
    /// `served`, `not served`, `stopped` with its node, or of a PCI function `its own`.
    pub state: &'static str,
    /// Reason for which it is not served, if its server says.
    pub problem: Option<String>,
}

impl Node {
    /// Gives it one more device, at once if it runs, and at each start. Returns its name.
    pub fn add_device(&self, spec: DeviceSpec) -> Result<String> {
        let (device, entry, mut record) = self.owned()?;
        let added = assign(&record.devices, spec).ok_or_else(|| {
            Error::refused(
                ErrorKind::Full,
                Subject::limit("devices of a node", abi::SLOTS + 1, abi::SLOTS),
                format!("node {} has {} devices already", self.name, abi::SLOTS),
            )
        })?;
        nobody_has(&self.name, &[record.devices.clone(), vec![added.clone()]].concat())?;
        host_leaves_all(std::slice::from_ref(&added))?;
        record.devices.push(added.clone());
        self.set_record(&device, &entry, &record)?;
        drop(device);
        if !entry.runs() {
            return Ok(added.name);
        }
        match self.serve_one(&added) {
            Ok(()) => Ok(added.name),
            Err(error) => {
                self.forget(&added.name)?;
                Err(error)
            }
        }
    }

    fn serve_one(&self, added: &Assigned) -> Result<()> {
        if serve::ask(&self.name, &Control::Add(added.clone()))?.is_some() {
            return Ok(());
        }
        // A node that had none so far has no server.
        let problems = serve::spawn(&self.name, &[])?;
        let of_this = format!("{}: ", added.name);
        let problem = problems.iter().find_map(|line| line.strip_prefix(&of_this));
        problem.map_or(Ok(()), |problem| {
            Err(Error::refused(
                ErrorKind::Refused,
                Subject::device(&self.name, &added.name),
                problem.to_owned(),
            ))
        })
    }

    /// Takes a device away, at once if it runs.
    pub fn remove_device(&self, name: &str) -> Result<()> {
        if self.forget(name)?.runs() {
            serve::ask(&self.name, &Control::Remove(name.to_owned()))?;
        }
        Ok(())
    }

    /// Takes it out of the record.
    fn forget(&self, name: &str) -> Result<sysfs::Status> {
        let (device, entry, mut record) = self.owned()?;
        let before = record.devices.len();
        record.devices.retain(|device| device.name != name);
        if record.devices.len() == before {
            return Err(Error::refused(
                ErrorKind::NotFound,
                Subject::device(&self.name, name),
                format!("node {} has no device {name}: see kumiki node device ls {0}", self.name),
            ));
        }
        self.set_record(&device, &entry, &record)?;
        Ok(entry)
    }

    /// Its devices.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let device = Device::read(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        let record = record_of(&device, &entry)?.ok_or_else(|| incomplete(&self.name))?;
        let runs = entry.runs();
        let served = if runs { serve::ask(&self.name, &Control::List)? } else { None };
        let of = |device: &Assigned| {
            let served =
                served.as_ref().and_then(|all| all.iter().find(|one| one.name == device.name));
            let problem = served.and_then(|served| served.problem.clone());
            DeviceInfo {
                name: device.name.clone(),
                kind: device.device.kind(),
                what: match &device.device {
                    DeviceSpec::Console => runtime::file(&device.terminal(&self.name))
                        .map_or_else(|error| error.to_string(), |at| at.display().to_string()),
                    other => other.to_string(),
                },
                mac: matches!(device.device, DeviceSpec::Net(_)).then(|| device.mac(&self.name)),
                state: match served {
                    Some(_) if problem.is_none() => "served",
                    _ if runs => "not served",
                    _ => "stopped",
                },
                problem,
            }
        };
        let functions = record.pci.iter().map(|function| DeviceInfo {
            name: format!("pci:{function}"),
            kind: "pci",
            what: function.to_string(),
            mac: None,
            state: if runs { "its own" } else { "stopped" },
            problem: None,
        });
        Ok(record.devices.iter().map(of).chain(functions).collect())
    }

    /// Its devices as they are recorded.
    pub(crate) fn assigned(&self) -> Result<Vec<Assigned>> {
        Ok(self.recorded()?.devices)
    }

    /// Its record.
    pub(crate) fn recorded(&self) -> Result<Record> {
        let device = Device::read(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        record_of(&device, &entry)?.ok_or_else(|| incomplete(&self.name))
    }

    pub(super) fn owned(&self) -> Result<(Device, sysfs::Status, Record)> {
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        let record = record::window(&device, &entry, Access::Read)?.1;
        let record = record.ok_or_else(|| incomplete(&self.name))?;
        Ok((device, entry, record))
    }
}
