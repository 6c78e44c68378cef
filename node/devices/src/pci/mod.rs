//! PCI functions that nodes have for their own: taken from the host's driver, shown to a node with
//! the bus that they are alone on, and given back.

pub mod config;
mod users;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kumiki_boot::PciBus;
use kumiki_node_wire::device::Dma;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, Subject};
use config::Config;

const DEVICES: &str = "/sys/bus/pci/devices";
const PROBE: &str = "/sys/bus/pci/drivers_probe";
const MCFG: &str = "/sys/firmware/acpi/tables/MCFG";
/// The driver of the module `osnode-pci`.
const DRIVER: &str = "kumiki-osnode";
const DRIVERS: &str = "/sys/bus/pci/drivers";
/// A way to memory past the host's IOMMU, and the way that the host chooses.
const PAST: &str = "identity";
const CHOSEN: &str = "auto";

/// A function by its address, such as 0000:01:00.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Function {
    segment: u16,
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Function { segment, bus, device, function } = self;
        write!(f, "{segment:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl From<Function> for String {
    fn from(function: Function) -> Self {
        function.to_string()
    }
}

impl TryFrom<String> for Function {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Function {
    type Err = String;

    /// `0000:01:00.0`, also without the segment, also behind `pci:`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: the address of a PCI function, 0000:01:00.0, is expected");
        let address = text.strip_prefix("pci:").unwrap_or(text);
        let (place, function) = address.rsplit_once('.').ok_or_else(wrong)?;
        let numbers: Option<Vec<u16>> =
            place.split(':').map(|number| u16::from_str_radix(number, 16).ok()).collect();
        let (segment, bus, device) = match numbers.as_deref() {
            Some(&[bus, device]) => (0, bus, device),
            Some(&[segment, bus, device]) => (segment, bus, device),
            _ => return Err(wrong()),
        };
        let function = function.parse().ok().filter(|function| *function < 8);
        let device = u8::try_from(device).ok().filter(|device| *device < 32);
        match (u8::try_from(bus), device, function) {
            (Ok(bus), Some(device), Some(function)) => {
                Ok(Function { segment, bus, device, function })
            }
            _ => Err(wrong()),
        }
    }
}

impl Function {
    /// Numbers by which the module names it: segment, and the rest.
    pub fn numbers(self) -> (u32, u32) {
        let rest =
            u32::from(self.bus) << 8 | u32::from(self.device) << 3 | u32::from(self.function);
        (self.segment.into(), rest)
    }

    fn folder(self) -> PathBuf {
        Path::new(DEVICES).join(self.to_string())
    }

    fn refused(self, kind: ErrorKind, why: impl fmt::Display) -> Error {
        Error::refused(
            kind,
            Subject::Function(self.to_string()),
            format!("PCI function {self}: {why}"),
        )
    }

    /// True if it is there: it may have been pulled out.
    pub fn is_there(self) -> bool {
        self.folder().exists()
    }

    fn write(self, file: &str, text: &str) -> Result<()> {
        let path = self.folder().join(file);
        fs::write(&path, text).map_err(|error| Error::file(path, error))
    }

    /// The driver that it is bound to.
    fn driver(self) -> Option<String> {
        let link = fs::read_link(self.folder().join("driver")).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }

    /// The bridge above it: the folder that it lies in.
    fn bridge(self) -> Result<Function> {
        let folder = self.folder();
        let place = fs::canonicalize(&folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.refused(
                ErrorKind::NotFound,
                "this machine has none of this address: lspci -D, or ls /sys/bus/pci/devices",
            ),
            _ => Error::file(&folder, error),
        })?;
        let above = place.parent().and_then(Path::file_name).unwrap_or_default();
        above.to_string_lossy().parse().map_err(|_| {
            self.refused(
                ErrorKind::Unsupported,
                "it is on the root bus, of which a node would see all: only what is alone behind a \
                 port of its own can be given",
            )
        })
    }

    /// Refuses what cannot be given, or not now. Nothing is touched. As long as these files are
    /// open no other use of its disks begins.
    pub fn check(self) -> Result<Vec<File>> {
        self.bus_of_node()?;
        let refuse = |kind, why: &str| Err(self.refused(kind, why));
        let bus = format!("{:04x}:{:02x}:", self.segment, self.bus);
        let on_bus = names(Path::new(DEVICES)).into_iter().filter(|name| name.starts_with(&bus));
        let others: Vec<String> = on_bus.filter(|name| *name != self.to_string()).collect();
        if !others.is_empty() {
            return Err(self.refused(
                ErrorKind::Unsupported,
                format_args!(
                    "{} are on its bus as well, and a node would see them: only what is alone \
                     behind its port can be given",
                    others.join(", ")
                ),
            ));
        }
        let config = Config::of(&self.folder())?;
        if config.is_bridge() {
            return refuse(ErrorKind::Unsupported, "it is a bridge");
        }
        if !config.has_messages() {
            return refuse(
                ErrorKind::Unsupported,
                "it interrupts by a wire (INTx) alone, which leads to the host: a device with MSI \
                 or MSI-X is needed",
            );
        }
        let ways = fs::read_to_string(self.folder().join("reset_method")).unwrap_or_default();
        if ways.trim().is_empty() {
            return refuse(
                ErrorKind::Unsupported,
                "it cannot be reset: it would go on writing to \
                                                   memory that is no longer the node's",
            );
        }
        let interrupts = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        if interrupts.contains("IR-PCI-MSI") {
            return refuse(
                ErrorKind::Unsupported,
                "this machine remaps interrupts, and would drop a node's: start it with \
                 intremap=off",
            );
        }
        let group = names(&self.folder().join("iommu_group/devices"));
        let others: Vec<_> = group.into_iter().filter(|name| *name != self.to_string()).collect();
        if !others.is_empty() {
            return Err(self.refused(
                ErrorKind::Unsupported,
                format_args!("its IOMMU group has {} as well", others.join(", ")),
            ));
        }
        users::of(&self.folder(), self.driver().as_deref())?.map_err(|users| {
            self.refused(
                ErrorKind::Busy,
                format_args!("this machine uses it: {}", users.join(", ")),
            )
        })
    }

    /// True if this machine's kernel has an IOMMU for it.
    pub fn is_behind_iommu(self) -> bool {
        self.folder().join("iommu_group").exists()
    }

    /// Takes it from its driver and binds it to the module's, which resets it. One that is not
    /// confined goes past the IOMMU. What [`Function::check`] has opened is closed between the two:
    /// a driver may keep memory that the device reaches for as long as one of its disks is open (NVMe's
    /// doorbells in memory), and gives it back by the way to memory that the device has then.
    pub fn take(self, dma: Dma, claimed: Vec<File>) -> Result<()> {
        if self.driver().as_deref() == Some(DRIVER) {
            return Ok(());
        }
        if !Path::new(DRIVERS).join(DRIVER).exists() {
            return Err(self.refused(
                ErrorKind::Unsupported,
                "nodes have functions by the module osnode-pci, which is not loaded: modprobe \
                 osnode-pci",
            ));
        }
        self.write("driver_override", DRIVER)?;
        self.unbind()?;
        drop(claimed);
        self.bind((dma == Dma::Unconfined).then_some(PAST))?;
        if self.driver().as_deref() == Some(DRIVER) {
            return Ok(());
        }
        let left = self.back().err().map(|error| format!("; and {error}")).unwrap_or_default();
        Err(self.refused(
            ErrorKind::Refused,
            format_args!("osnode-pci.ko has not taken it: the kernel's log says why{left}"),
        ))
    }

    /// Gives it back to the host's own driver.
    pub fn back(self) -> Result<()> {
        self.write("driver_override", "\n")?;
        self.unbind()?;
        self.bind(Some(CHOSEN))
    }

    /// Gives it back if it was taken at all.
    pub fn back_if_taken(self) -> Result<()> {
        if self.driver().as_deref() == Some(DRIVER) { self.back() } else { Ok(()) }
    }

    fn unbind(self) -> Result<()> {
        if self.driver().is_some() {
            self.write("driver/unbind", &self.to_string())?;
        }
        Ok(())
    }

    /// Has a driver for it found. As long as it has none its way to memory can be changed.
    fn bind(self, way: Option<&str>) -> Result<()> {
        let group = self.folder().join("iommu_group/type");
        if let Some(way) = way.filter(|_| group.exists()) {
            fs::write(&group, way).map_err(|error| Error::file(group, error))?;
        }
        // None may suit it: that is no error.
        fs::write(PROBE, self.to_string()).map_err(|error| Error::file(PROBE, error))
    }

    /// The bus that it is alone on, as its node's kernel is told of it.
    pub fn bus_of_node(self) -> Result<PciBus> {
        let bridge = self.bridge()?;
        let config = Config::of(&bridge.folder())?;
        let windows = config.windows(self.bus).ok_or_else(|| {
            self.refused(
                ErrorKind::Unsupported,
                format_args!("{bridge}, which it is behind, leads to other buses as well"),
            )
        })?;
        let tables = fs::read(MCFG).unwrap_or_default();
        let ecam = config::ecam(&tables, self.segment, self.bus).ok_or_else(|| {
            self.refused(
                ErrorKind::Unsupported,
                "this machine has no configuration of its bus in memory (the ACPI table MCFG)",
            )
        })?;
        let (segment, number) = (self.segment, self.bus);
        Ok(PciBus { segment, number, ecam, ports: windows.ports, memory: windows.memory })
    }
}

/// Names in a folder, if there is one.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_people_write_it() {
        let read = |text: &str| text.parse::<Function>().map(|function| function.to_string());
        for text in ["0000:01:1f.7", "pci:0000:01:1f.7", "01:1f.7"] {
            assert_eq!(read(text).unwrap(), "0000:01:1f.7");
        }
        assert_eq!("0001:02:03.4".parse::<Function>().unwrap().numbers(), (1, 0x21c));
        for text in ["", "01", "01:00", "0000:01:20.0", "01:00.8", "100:00.0", "a:b:c:d.0"] {
            assert!(read(text).unwrap_err().contains("is expected"), "{text}");
        }
        let function: Function = serde_json::from_str("\"0000:01:00.0\"").unwrap();
        assert_eq!(serde_json::to_string(&function).unwrap(), "\"0000:01:00.0\"");
    }
}
