//! A dead host's memory, as a vmcore.

use kumiki_boot::Piece;

use super::core_file::{self, Place, Unread};
use super::free::{free_blocks, joined, without};
use super::physical::{HostMemory, Physical};
use super::signs::{Death, Signs};
use super::told::{HostDescription, VMCOREINFO};
use super::vmcoreinfo::Vmcoreinfo;
use crate::Result;

/// A hole that is left out of the file, at least: `crash` and `makedumpfile` look for a page
/// among all segments, one by one.
const HOLE_BYTES: u64 = 256 << 10;
const SEGMENTS: usize = 4096;

/// Amounts that were written.
pub(super) struct Dumped {
    pub(super) file_bytes: u64,
    pub(super) ram_bytes: u64,
    pub(super) unread: Unread,
}

/// Writes it. What does not stop it, `log` is told.
pub(super) fn dump(
    (signs, death): (&Signs, &Death),
    told: &HostDescription,
    to: &str,
    log: &dyn Fn(&str),
) -> Result<Dumped> {
    let mut memory = HostMemory::new(told.ram.clone())?;
    let ram = without(&told.ram, &told.apart);
    let runs = in_use(&mut memory, told, &ram, log);
    let head = core_file::head(&runs, told.direct_map, &notes(signs, death, told));
    let (all, kept) = (bytes(&ram), bytes(&runs) + head.len() as u64);
    log(&format!("writing {} MiB of the host's {} MiB to {to}", kept >> 20, all >> 20));
    let place = Place::open(to, kept)?;
    let unread = core_file::write(&mut memory, &head, &runs, place)?;
    Ok(Dumped { file_bytes: kept, ram_bytes: all, unread })
}

fn bytes(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes).sum()
}

/// Memory but for what is free; all of it where that cannot be told.
fn in_use(
    memory: &mut dyn Physical,
    told: &HostDescription,
    ram: &[Piece],
    log: &dyn Fn(&str),
) -> Vec<Piece> {
    let info = Vmcoreinfo::parse(&told.vmcoreinfo);
    let free = free_blocks(memory, &info, ram).unwrap_or_else(|error| {
        log(&format!("the vmcore has free pages, too: {error}"));
        Vec::new()
    });
    segments(ram, &joined(free))
}

/// Segments without the holes that are large enough, and few enough segments.
fn segments(ram: &[Piece], free: &[Piece]) -> Vec<Piece> {
    let mut least = HOLE_BYTES;
    loop {
        let holes: Vec<_> = free.iter().filter(|hole| hole.bytes >= least).copied().collect();
        let runs = without(ram, &holes);
        if runs.len() <= SEGMENTS.max(ram.len()) {
            return runs;
        }
        least *= 2;
    }
}

/// Vmcoreinfo, and a status of each cpu that was on line, of which that of
/// the panic is known.
fn notes(signs: &Signs, death: &Death, told: &HostDescription) -> Vec<u8> {
    let mut notes = Vec::new();
    for (cpu, _) in signs.beats().into_iter().enumerate().filter(|(_, beats)| *beats != 0) {
        let (pid, place) = match death {
            Death::Panic(panic) if panic.cpu as usize == cpu => (panic.pid, panic.place),
            _ => (0, (0, 0)),
        };
        notes.extend(core_file::status(pid, place));
    }
    notes.extend(core_file::note(VMCOREINFO, 0, told.vmcoreinfo.as_bytes()));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_holes_stay_and_there_are_never_too_many() {
        let piece = |address: u64, bytes: u64| Piece { address, bytes };
        let ram = [piece(0, 64 << 30)];
        let free = [piece(0, 4096), piece(1 << 20, HOLE_BYTES), piece(8 << 20, 1 << 20)];
        let runs = segments(&ram, &free);
        assert_eq!(
            runs.iter().map(|run| run.address).collect::<Vec<_>>(),
            [0, (1 << 20) + HOLE_BYTES, 9 << 20]
        );
        // Every second one is larger.
        let many: Vec<_> = (0..8000)
            .map(|n| piece(n << 21, if n % 2 == 0 { 1 << 20 } else { HOLE_BYTES }))
            .collect();
        let runs = segments(&ram, &many);
        assert_eq!(runs.len(), 4000);
    }
}
