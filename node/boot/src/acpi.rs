//! The ACPI tables by which a node's kernel sees its cpus and nothing else.
//!
//! RSDP → XSDT → FADT (→ a DSDT, empty but for PCI buses that it has) and MADT. Each flag keeps the node off
//! something that is the host's; see `docs/design/node.md`.

use acpi_tables::Aml;
use acpi_tables::aml::{
    AddressSpace as Range, AddressSpaceCacheable, Device, EISAName, Name, ResourceTemplate, Scope,
};
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::madt::{EnabledStatus, IoApic, ProcessorLocalApic};
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;

use crate::bytes::{u32_le, u64_le};

const OEM: [u8; 6] = *b"KUMIKI";
const OEM_TABLE: [u8; 8] = *b"OSNODE  ";
const OEM_REVISION: u32 = 1;
const LOCAL_APIC: u32 = 0xfee0_0000;

/// `ACPI_FADT_NO_VGA | ACPI_FADT_NO_CMOS_RTC`
const NO_VGA_NO_RTC: u16 = 1 << 2 | 1 << 5;

/// The reset register's value that asks for a restart.
pub(crate) const RESET_VALUE: u8 = 1;

/// Offsets in a FADT: of its flags, the power management timer's port and the length of that, and
/// the port in the form that later versions have beside it.
const FLAGS: usize = 112;
const PM_TIMER: usize = 76;
const PM_TIMER_BYTES: usize = 91;
const X_PM_TIMER: usize = 208;
/// The timer's registers are one of 32 bits.
const PM_TIMER_PORTS: u8 = 4;

/// Facts about the machine that a node gets by ACPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acpi {
    /// APIC ids, the first to start first.
    pub cpus: Vec<u32>,
    /// An id that no cpu has, listed before all others: a kernel that misses the
    /// BSP bit takes the first for the boot cpu of a crashed kernel and uses the
    /// rest. Other kernels would try to start it.
    pub foreign: Option<u32>,
    /// The I/O port of the machine's power management timer, which is only read. With it
    /// a kernel knows how long it really counted its local APIC's timer; without, one whose
    /// cpu stood still meanwhile gets a wrong rate, or goes on without any timer.
    pub pm_timer: Option<u16>,
    /// PCI buses that it has, with all that is on them.
    pub pci: Vec<PciBus>,
}

/// A PCI bus, as the bridge above it has it: a node's kernel moves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciBus {
    /// The machine's number of the segment, and of the bus.
    pub segment: u16,
    /// The bus's number.
    pub number: u8,
    /// Address of the segment's configuration in the machine's memory: that of bus 0.
    pub ecam: u64,
    /// First and last port of the bridge's window, if it has one.
    pub ports: Option<(u16, u16)>,
    /// First and last byte of its windows in memory, and whether reads have no effects there.
    pub memory: Vec<(u64, u64, bool)>,
}

/// Length of a bus's configuration in memory.
const ECAM_BUS_BYTES: u64 = 1 << 20;

impl PciBus {
    /// A host bridge, and the memory of its bus's configuration, without which a kernel does not
    /// use that: the n-th of them.
    fn to_aml(&self, n: usize) -> Vec<u8> {
        let (number, bus) = (n as u8, u16::from(self.number));
        let numbers = Range::new_bus_number(bus, bus);
        let ports = self.ports.map(|(first, last)| Range::new_io(first, last, None));
        let memory: Vec<_> = self
            .memory
            .iter()
            .map(|&(first, last, prefetchable)| {
                let kind = if prefetchable {
                    AddressSpaceCacheable::PreFetchable
                } else {
                    AddressSpaceCacheable::NotCacheable
                };
                Range::new_memory(kind, true, first, last, None)
            })
            .collect();
        let mut windows: Vec<&dyn Aml> = vec![&numbers];
        windows.extend(ports.iter().map(|range| range as &dyn Aml));
        windows.extend(memory.iter().map(|range| range as &dyn Aml));
        let windows = ResourceTemplate::new(windows);
        let own = self.ecam + ECAM_BUS_BYTES * u64::from(self.number);
        let own = Range::new_memory(
            AddressSpaceCacheable::NotCacheable,
            true,
            own,
            own + ECAM_BUS_BYTES - 1,
            None,
        );
        let own = ResourceTemplate::new(vec![&own]);
        let (express, pci, board) =
            (EISAName::new("PNP0A08"), EISAName::new("PNP0A03"), EISAName::new("PNP0C02"));
        let name = |name: &str, value: &dyn Aml| Name::new(name.into(), value);
        let names = [
            name("_HID", &express),
            name("_CID", &pci),
            name("_UID", &number),
            name("_SEG", &self.segment),
            name("_BBN", &self.number),
            name("_CRS", &windows),
            // In place of the table MCFG.
            name("_CBA", &self.ecam),
        ];
        let bridge = Device::new(
            format!("PC{n:02X}").as_str().into(),
            names.iter().map(|name| name as &dyn Aml).collect(),
        );
        let names = [name("_HID", &board), name("_UID", &number), name("_CRS", &own)];
        let reserved = Device::new(
            format!("MB{n:02X}").as_str().into(),
            names.iter().map(|name| name as &dyn Aml).collect(),
        );
        [bytes(&bridge), bytes(&reserved)].concat()
    }
}

/// The port of the power management timer in a machine's FADT, if it has one.
pub fn pm_timer(fadt: &[u8]) -> Option<u16> {
    let reduced = u32_le(fadt, FLAGS)? & Flags::HwReducedAcpi as u32 != 0;
    let (port, is_port) = match u64_le(fadt, X_PM_TIMER + 4) {
        Some(port) if port != 0 => (port, fadt[X_PM_TIMER] == AddressSpace::SystemIo as u8),
        _ => (u32_le(fadt, PM_TIMER)?.into(), fadt[PM_TIMER_BYTES] == PM_TIMER_PORTS),
    };
    u16::try_from(port).ok().filter(|&port| port != 0 && is_port && !reduced)
}

pub(crate) struct Tables<'a> {
    /// Physical address of the first byte.
    pub(crate) at: u64,
    pub(crate) acpi: &'a Acpi,
    /// A page of RAM that takes the writes meant for an IO-APIC. Without any
    /// IO-APIC the kernel reads the BIOS's tables and drives the host's.
    pub(crate) io_apic: u32,
    /// A byte that is written when the node asks for a restart.
    pub(crate) reset_register: u64,
}

impl Tables<'_> {
    /// The bytes, RSDP first.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Lengths do not depend on addresses: lay out, then fill in.
        let mut dsdt = Sdt::new(*b"DSDT", 36, 2, OEM, OEM_TABLE, OEM_REVISION);
        if !self.acpi.pci.is_empty() {
            let buses = self.acpi.pci.iter().enumerate().map(|(n, bus)| bus.to_aml(n));
            dsdt.append_slice(&Scope::raw("_SB_".into(), buses.flatten().collect()));
        }
        let madt = self.madt();
        let mut at = self.at;
        let mut place = |length: usize| {
            let start = at;
            at = (at + length as u64).next_multiple_of(64);
            start
        };
        let rsdp_at = place(Rsdp::len());
        let xsdt_at = place(36 + 2 * 8);
        let fadt_at = place(acpi_tables::fadt::FADT::len());
        let dsdt_at = place(dsdt.len());
        let madt_at = place(madt.len());

        let mut xsdt = XSDT::new(OEM, OEM_TABLE, OEM_REVISION);
        xsdt.add_entry(fadt_at);
        xsdt.add_entry(madt_at);
        let mut out = vec![0; (at - self.at) as usize];
        let mut put = |address: u64, bytes: &[u8]| {
            let start = (address - self.at) as usize;
            out[start..start + bytes.len()].copy_from_slice(bytes);
        };
        put(rsdp_at, &bytes(&Rsdp::new(OEM, xsdt_at)));
        put(xsdt_at, &bytes(&xsdt));
        put(fadt_at, &bytes(&self.fadt(dsdt_at).finalize()));
        put(dsdt_at, dsdt.as_slice());
        put(madt_at, madt.as_slice());
        out
    }

    fn fadt(&self, dsdt: u64) -> FADTBuilder {
        let mut fadt = FADTBuilder::new(OEM, OEM_TABLE, OEM_REVISION)
            .flag(Flags::Wbinvd)
            .flag(Flags::PwrButton)
            .flag(Flags::SlpButton)
            .flag(Flags::ResetRegSup)
            // Else the node takes the logical id of the host's cpu 0.
            .flag(Flags::ForceApicPhysicalDestinationMode)
            // Else it drives the PIC and the PIT.
            .flag(Flags::HwReducedAcpi)
            .dsdt_64(dsdt);
        fadt.iapc_boot_arch = NO_VGA_NO_RTC.into();
        fadt.reset_reg =
            GAS::new(AddressSpace::SystemMemory, 8, 0, AccessSize::ByteAccess, self.reset_register);
        fadt.reset_value = RESET_VALUE;
        if let Some(port) = self.acpi.pm_timer {
            fadt.pm_tmr_blk = u32::from(port).into();
            fadt.pm_tmr_len = PM_TIMER_PORTS;
            let (space, access) = (AddressSpace::SystemIo, AccessSize::DwordAccess);
            fadt.x_pm_tmr_blk = GAS::new(space, 32, 0, access, port.into());
        }
        fadt
    }

    fn madt(&self) -> Sdt {
        let mut madt = Sdt::new(*b"APIC", 44, 1, OEM, OEM_TABLE, OEM_REVISION);
        madt.write_u32(36, LOCAL_APIC);
        let listed = self.acpi.foreign.iter().chain(&self.acpi.cpus);
        for (uid, &id) in listed.enumerate() {
            madt.append_slice(&local_apic(uid, id));
        }
        let (id, first_interrupt) = (0, 0);
        madt.append_slice(&bytes(&IoApic::new(id, self.io_apic, first_interrupt)));
        madt
    }
}

/// An entry for a processor: one of 16 bytes, which the library has not, where the older one has
/// no room for its numbers. In that 255 means all.
fn local_apic(uid: usize, id: u32) -> Vec<u8> {
    match (u8::try_from(uid), u8::try_from(id)) {
        (Ok(uid @ ..=254), Ok(id @ ..=254)) => {
            bytes(&ProcessorLocalApic::new(uid, id, EnabledStatus::Enabled))
        }
        _ => {
            let (kind, length) = (9, 16);
            let words = [id, EnabledStatus::Enabled as u32, uid as u32].map(u32::to_le_bytes);
            [&[kind, length, 0, 0], words.as_flattened()].concat()
        }
    }
}

fn bytes(table: &dyn Aml) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.to_aml_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::u16_le;

    const AT: u64 = 0x1_4000_3000;

    fn tables(acpi: &Acpi) -> Vec<u8> {
        Tables { at: AT, acpi, io_apic: 0x4_f000, reset_register: 0x1_4fe0_0008 }.to_bytes()
    }

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    /// The table at a physical address, its checksum proved.
    fn table<'a>(all: &'a [u8], address: u64, signature: &[u8; 4]) -> &'a [u8] {
        let start = (address - AT) as usize;
        let length = u32_le(all, start + 4).unwrap() as usize;
        let table = &all[start..start + length];
        assert_eq!(&table[..4], signature);
        assert_eq!(sum(table), 0, "checksum of {}", String::from_utf8_lossy(signature));
        table
    }

    #[test]
    fn a_reader_finds_every_table_from_the_rsdp() {
        let all = tables(&Acpi { cpus: vec![3, 2], foreign: None, pm_timer: None, pci: vec![] });
        assert_eq!(&all[..8], b"RSD PTR ");
        assert_eq!((sum(&all[..20]), sum(&all[..36]), all[15]), (0, 0, 2));
        let xsdt = table(&all, u64_le(&all, 24).unwrap(), b"XSDT");
        let fadt = table(&all, u64_le(xsdt, 36).unwrap(), b"FACP");
        assert_eq!(fadt[8], 6);
        assert_eq!(u32_le(fadt, 112), Some(1 | 1 << 4 | 1 << 5 | 1 << 10 | 1 << 19 | 1 << 20));
        assert_eq!(u16_le(fadt, 109), Some(0x24));
        assert_eq!((fadt[116], fadt[117], fadt[119], fadt[128]), (0, 8, 1, RESET_VALUE));
        assert_eq!(u64_le(fadt, 120), Some(0x1_4fe0_0008));
        assert_eq!(table(&all, u64_le(fadt, 140).unwrap(), b"DSDT").len(), 36);
        let madt = table(&all, u64_le(xsdt, 44).unwrap(), b"APIC");
        assert_eq!(u32_le(madt, 36), Some(LOCAL_APIC));
        assert_eq!(u32_le(madt, 40), Some(0));
        assert_eq!(madt[44..52], [0, 8, 0, 3, 1, 0, 0, 0]);
        assert_eq!(madt[52..60], [0, 8, 1, 2, 1, 0, 0, 0]);
        assert_eq!(madt[60..], [1, 12, 0, 0, 0, 0xf0, 4, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_foreign_cpu_comes_first() {
        let all = tables(&Acpi {
            cpus: vec![1, 2],
            foreign: Some(0xfe),
            pm_timer: Some(0x608),
            pci: vec![],
        });
        let xsdt = table(&all, u64_le(&all, 24).unwrap(), b"XSDT");
        let madt = table(&all, u64_le(xsdt, 44).unwrap(), b"APIC");
        assert_eq!([madt[47], madt[55], madt[63]], [0xfe, 1, 2]);
    }

    #[test]
    fn a_processor_of_a_large_machine_has_the_larger_entry() {
        let all =
            tables(&Acpi { cpus: vec![254, 255, 300], foreign: None, pm_timer: None, pci: vec![] });
        let xsdt = table(&all, u64_le(&all, 24).unwrap(), b"XSDT");
        let madt = table(&all, u64_le(xsdt, 44).unwrap(), b"APIC");
        assert_eq!(madt[44..52], [0, 8, 0, 254, 1, 0, 0, 0]);
        assert_eq!(madt[52..68], [9, 16, 0, 0, 255, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(madt[68..84], [9, 16, 0, 0, 44, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(madt[84], 1);
    }

    #[test]
    fn a_bus_is_told_with_its_windows_and_its_configuration() {
        let bus = PciBus {
            segment: 0,
            number: 1,
            ecam: 0xb000_0000,
            ports: Some((0x1000, 0x1fff)),
            memory: vec![(0xfe00_0000, 0xfe1f_ffff, false), (0x8_0000_0000, 0x8_001f_ffff, true)],
        };
        let other = PciBus { number: 2, ports: None, memory: vec![], ..bus.clone() };
        let acpi = Acpi { cpus: vec![1], foreign: None, pm_timer: None, pci: vec![bus, other] };
        let all = tables(&acpi);
        let xsdt = table(&all, u64_le(&all, 24).unwrap(), b"XSDT");
        let fadt = table(&all, u64_le(xsdt, 36).unwrap(), b"FACP");
        let dsdt = table(&all, u64_le(fadt, 140).unwrap(), b"DSDT");
        let has = |bytes: &[u8]| memchr::memmem::find_iter(dsdt, bytes).count();
        for name in [b"PC00", b"PC01", b"MB00", b"MB01"] {
            assert_eq!(has(name), 1, "{}", String::from_utf8_lossy(name));
        }
        // A word's range: granularity, first, last, no translation, length.
        assert_eq!(has(&[0, 0, 0, 0x10, 0xff, 0x1f, 0, 0, 0, 0x10]), 1);
        let ranges = [(0xfe00_0000, 0x20_0000), (0xb010_0000, 1 << 20), (0xb020_0000, 1 << 20)];
        for (first, length) in ranges {
            let words = [0_u64, first, first + length - 1, 0, length];
            assert_eq!(has(&words.map(u64::to_le_bytes).concat()), 1, "{first:#x}");
        }
        // The n-th bus is bus n + 1 of the machine.
        assert_eq!((has(b"\x08_BBN\x01"), has(b"\x08_BBN\x0a\x02")), (1, 1));
        assert_eq!(has(b"\x08_CBA\x0c\0\0\0\xb0"), 2);
    }

    #[test]
    fn the_power_management_timer_is_found_and_handed_on() {
        // What QEMU's q35 has, as far as it is read.
        let mut host = [0; 244];
        host[PM_TIMER..PM_TIMER + 2].copy_from_slice(&0x608_u16.to_le_bytes());
        host[PM_TIMER_BYTES] = 4;
        assert_eq!(pm_timer(&host), Some(0x608));
        assert_eq!(pm_timer(&host[..132]), Some(0x608));
        for cut in 0..FLAGS + 4 {
            assert_eq!(pm_timer(&host[..cut]), None);
        }
        host[PM_TIMER_BYTES] = 0;
        assert_eq!(pm_timer(&host), None);
        host[X_PM_TIMER..X_PM_TIMER + 6].copy_from_slice(&[1, 32, 0, 3, 8, 0xb0]);
        assert_eq!(pm_timer(&host), Some(0xb008));
        // In memory, and beyond the ports.
        host[X_PM_TIMER] = 0;
        assert_eq!(pm_timer(&host), None);
        host[X_PM_TIMER] = 1;
        host[X_PM_TIMER + 6] = 1;
        assert_eq!(pm_timer(&host), None);

        let all =
            tables(&Acpi { cpus: vec![1], foreign: None, pm_timer: Some(0x608), pci: vec![] });
        let xsdt = table(&all, u64_le(&all, 24).unwrap(), b"XSDT");
        let mut fadt = table(&all, u64_le(xsdt, 36).unwrap(), b"FACP").to_vec();
        assert_eq!((u32_le(&fadt, 76), fadt[91]), (Some(0x608), 4));
        assert_eq!(fadt[208..220], [1, 32, 0, 3, 8, 6, 0, 0, 0, 0, 0, 0]);
        // A machine of reduced hardware has none, but a node's kernel reads it all the same.
        assert_eq!(pm_timer(&fadt), None);
        fadt[FLAGS + 2] = 0;
        assert_eq!(pm_timer(&fadt), Some(0x608));
    }
}
