//! The machine's clocks that a node's kernel reads as well.

use std::fs;

use kumiki_node_wire::module::sysfs;
use serde::{Deserialize, Serialize};

use crate::Result;

/// File in which a kernel shows the table that names the timer.
const FADT: &str = "/sys/firmware/acpi/tables/FACP";

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Clocks {
    /// The time stamp counter's rate by this kernel.
    pub tsc_khz: u64,
    /// The I/O port of the power management timer, if the machine has one.
    pub pm_timer: Option<u16>,
}

impl Clocks {
    /// Clocks as the host knows them; not every machine has ACPI.
    pub fn of_host() -> Result<Self> {
        let fadt = fs::read(FADT).unwrap_or_default();
        Ok(Clocks { tsc_khz: sysfs::tsc_khz()?, pm_timer: kumiki_boot::pm_timer(&fadt) })
    }
}
