//! A node's start: worked out, and written into its memory.

use kumiki_boot::{Acpi, CommandLine, Partition, PciBus, Piece, Plan, SLICE_BYTES, Source};
use kumiki_node_devices::clocks::Clocks;
use kumiki_node_devices::record::Record;
use kumiki_node_wire::AGENT;
use kumiki_node_wire::early::StartId;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::stages::{LoadParts, timed};

use crate::origin::Origin;
use crate::{Error, ErrorKind, Result, Subject};

/// The last id that an interrupt controller of eight bits names; the one above is all of them.
const LAST_XAPIC_ID: u32 = 254;

/// Works a start out: what goes where.
pub fn plan(
    entry: &sysfs::Status,
    record: &Record,
    origin: &Origin<'_>,
    clocks: Clocks,
    start: StartId,
) -> Result<Plan> {
    let mut partition = Partition::new(entry.slice, record.parts(&entry.pieces).0.to_vec())?;
    if let Some(root) = origin.root {
        partition = partition.with_root(root)?;
    }
    let window = partition.window().address;
    // Its own, and those that it may get while it runs.
    let spare = record.told.iter().filter(|cpu| !entry.cpus.contains(cpu));
    let spare = spare.filter(|_| record.elastic.is_some());
    let cpus: Vec<u32> = entry.cpus.iter().chain(spare).map(|&(_, id)| id).collect();
    let mut line = CommandLine::of_node(cpus.len(), clocks.tsc_khz);
    if record.elastic.is_some() {
        line = line.with_its_first_cpu();
    }
    if !record.pci.is_empty() {
        line = line.with_pci();
    }
    if cpus.iter().any(|&id| id > LAST_XAPIC_ID) {
        line = line.with_x2apic();
    }
    // Early: a log has no more than the first thousand letters of a line.
    line.word(start.word());
    line.init(AGENT, &["node", "agent", "--window", &format!("{window:#x}")]);
    if !record.command_line.is_empty() {
        line.word(&record.command_line);
    }
    // One cpu is used in any case.
    let foreign = (cpus.len() > 1 && origin.checks_bsp_bit)
        .then(|| (0..=LAST_XAPIC_ID).rev().find(|id| !cpus.contains(id)))
        .flatten();
    let places = (abi::RESET as u64, (abi::STAMPS + 8 * abi::STAMP_TRAMPOLINE) as u64);
    let pci: Vec<PciBus> =
        record.pci.iter().map(|function| function.bus_of_node()).collect::<Result<_>>()?;
    let acpi = Acpi { cpus, foreign, pm_timer: clocks.pm_timer, pci };
    Ok(Plan::new(&partition, origin.kernel, origin.initramfs.length(), &line, &acpi, places)?)
}

/// Makes the plan's writes through mappings of a node's memory.
pub fn load(
    map: impl Fn(Piece) -> Result<Memory>,
    entry: &sysfs::Status,
    plan: &Plan,
    origin: &Origin<'_>,
    parts: &mut LoadParts,
) -> Result<()> {
    let first = entry.pieces[0];
    let slice = Piece { address: entry.slice, bytes: SLICE_BYTES };
    let maps = [(first, map(first)?), (slice, map(slice)?)];
    let damaged = || {
        Error::refused(
            ErrorKind::Damaged,
            Subject::node(&entry.name),
            format!(
                "the kernel of node {}'s image is damaged, its parts being beyond its end: something \
             wrote to its memory; kumiki image verify says more",
                entry.name
            ),
        )
    };
    for write in &plan.writes {
        let inside = |piece: &Piece| (piece.address..piece.end()).contains(&write.address);
        let found: Option<&(Piece, Memory)> = maps.iter().find(|(piece, _)| inside(piece));
        let (piece, memory) = found.ok_or_else(|| {
            Error::refused(
                ErrorKind::Damaged,
                Subject::Address(write.address),
                format!("a write to {:#x}, which is not the node's", write.address),
            )
        })?;
        let at = (write.address - piece.address) as usize;
        match &write.source {
            Source::Bytes(bytes) => timed(&mut parts.plan_ms, || memory.write(at, bytes)),
            Source::Zero { bytes } => {
                timed(&mut parts.copy_kernel_ms, || memory.zero(at, *bytes as usize));
            }
            Source::Kernel { offset, bytes } => {
                let end = offset.checked_add(*bytes);
                end.filter(|end| *end <= origin.kernel_bytes.length()).ok_or_else(damaged)?;
                timed(&mut parts.copy_kernel_ms, || {
                    origin.kernel_bytes.copy(*offset, *bytes, memory, at);
                });
            }
            Source::Initramfs { bytes } => timed(&mut parts.copy_initramfs_ms, || {
                origin.initramfs.copy(0, *bytes, memory, at);
            }),
        }
    }
    Ok(())
}
