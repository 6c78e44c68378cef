//! Facts that the host tells the nodes that watch it, for a time when nobody can be asked.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use kumiki_boot::Piece;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use object::LittleEndian;
use object::elf::{FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use serde::{Deserialize, Serialize};

use super::free::joined;
use crate::{Error, ErrorKind, Result, Subject, json};

/// The host's memory as a core file: where its kernel has its memory, and its vmcoreinfo.
const KCORE: &str = "/proc/kcore";
/// Headers and notes of it are far less.
const HEAD_BYTES: u64 = 1 << 20;
/// Name of the note that `crash` and `makedumpfile` begin with.
pub(super) const VMCOREINFO: &[u8] = b"VMCOREINFO";

/// Description of the host, by which its dump is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostDescription {
    pub(super) vmcoreinfo: String,
    /// Offset added to a physical address where the host's kernel has all memory.
    pub(super) direct_map: u64,
    pub(super) ram: Vec<Piece>,
    /// Parts of that: nodes and images, which are not the host's.
    pub(super) apart: Vec<Piece>,
    pub(super) nodes: Vec<sysfs::Status>,
}

impl HostDescription {
    /// The machine as it is now.
    fn of_host() -> Result<Self> {
        let file = File::open(KCORE).map_err(|error| Error::file(KCORE, error))?;
        let mut head = Vec::new();
        file.take(head_bytes(KCORE)?)
            .read_to_end(&mut head)
            .map_err(|error| Error::file(KCORE, error))?;
        let (vmcoreinfo, direct_map, ram) = of_core(&head)?;
        let nodes = sysfs::all(Holding::Node)?;
        let images = sysfs::all(Holding::Image)?;
        let all = nodes.iter().chain(&images);
        let mut apart: Vec<_> = all.flat_map(|entry| entry.pieces.iter().copied()).collect();
        apart.extend(
            nodes.iter().map(|node| Piece { address: node.slice, bytes: kumiki_boot::SLICE_BYTES }),
        );
        Ok(HostDescription { vmcoreinfo, direct_map, ram, apart: joined(apart), nodes })
    }
}

/// Bytes of a core file before its memory.
fn head_bytes(path: &str) -> Result<u64> {
    let failed = |error| Error::file(path, error);
    let file = File::open(path).map_err(failed)?;
    let mut start = vec![0; 4096];
    file.read_exact_at(&mut start, 0).map_err(failed)?;
    let header = FileHeader64::<LittleEndian>::parse(&*start).map_err(|error| odd(&error))?;
    let table = header.e_phoff.get(LittleEndian)
        + u64::from(header.e_phnum.get(LittleEndian))
            * size_of::<ProgramHeader64<LittleEndian>>() as u64;
    let mut table_bytes = vec![0; table.min(HEAD_BYTES) as usize];
    file.read_exact_at(&mut table_bytes, 0).map_err(failed)?;
    let segments =
        header.program_headers(LittleEndian, &*table_bytes).map_err(|error| odd(&error))?;
    let notes = segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_NOTE);
    let end = notes.map(|note| note.p_offset(LittleEndian) + note.p_filesz(LittleEndian)).max();
    Ok(end.unwrap_or(table).max(table).min(HEAD_BYTES))
}

fn odd(error: &object::Error) -> Error {
    Error::refused(ErrorKind::Unsupported, Subject::File(KCORE.into()), format!("{KCORE}: {error}"))
}

/// Vmcoreinfo, the offset of the map of all memory, and memory, by the head of a core file.
fn of_core(head: &[u8]) -> Result<(String, u64, Vec<Piece>)> {
    let lacks = |what| {
        Error::refused(
            ErrorKind::Unsupported,
            Subject::File(KCORE.into()),
            format!("{KCORE} has no {what}"),
        )
    };
    let header = FileHeader64::<LittleEndian>::parse(head).map_err(|error| odd(&error))?;
    let segments = header.program_headers(LittleEndian, head).map_err(|error| odd(&error))?;
    let mut info = None;
    let mut ram: Vec<(u64, Piece)> = Vec::new();
    for segment in segments {
        if let Some(mut notes) = segment.notes(LittleEndian, head).map_err(|error| odd(&error))? {
            while let Some(note) = notes.next().map_err(|error| odd(&error))? {
                if note.name() == VMCOREINFO {
                    info = Some(String::from_utf8_lossy(note.desc()).into_owned());
                }
            }
        }
        let (at, address) = (segment.p_vaddr(LittleEndian), segment.p_paddr(LittleEndian));
        if segment.p_type(LittleEndian) == PT_LOAD && address != u64::MAX {
            let bytes = segment.p_memsz(LittleEndian);
            ram.push((at.wrapping_sub(address), Piece { address, bytes }));
        }
    }
    // The kernel's text is mapped a second time, higher than anything else.
    let direct_map = ram.iter().map(|(offset, _)| *offset).min().ok_or_else(|| lacks("memory"))?;
    ram.retain(|(offset, _)| *offset == direct_map);
    let ram = joined(ram.into_iter().map(|(_, piece)| piece).collect());
    let info = info.map(|text| text.trim_end_matches('\0').to_owned());
    Ok((info.ok_or_else(|| lacks("vmcoreinfo"))?, direct_map, ram))
}

/// True if the module is there by which this machine gives signs of life.
pub fn can_be() -> bool {
    Path::new(abi::WATCH_DEVICE).exists()
}

/// Leaves how this machine is now to the nodes that watch it, if one may.
pub fn tell() -> Result<()> {
    if !can_be() {
        return Ok(());
    }
    let told = HostDescription::of_host()?;
    let text = json(&told)?;
    if text.len() > abi::TOLD_BYTES {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::limit("bytes of nodes and memory", text.len(), abi::TOLD_BYTES),
            format!(
                "{} nodes and {} ranges of memory are {} bytes to tell the node that watches, of {} at \
                 most",
                told.nodes.len(),
                told.ram.len() + told.apart.len(),
                text.len(),
                abi::TOLD_BYTES
            ),
        ));
    }
    let opened = OpenOptions::new().write(true).open(abi::WATCH_DEVICE);
    let mut device = opened.map_err(|error| Error::file(abi::WATCH_DEVICE, error))?;
    // The module takes all of it in one call.
    let written = device.write(&text).map_err(|error| Error::file(abi::WATCH_DEVICE, error))?;
    if written == text.len() {
        return Ok(());
    }
    Err(Error::Protocol(format!("{written} of {} bytes told", text.len())))
}

#[cfg(test)]
mod tests {
    use super::super::core_file::{head, note};
    use super::*;

    #[test]
    fn a_core_file_tells_memory_and_vmcoreinfo() {
        let direct_map = 0xffff_8880_0000_0000_u64;
        let ram: Vec<_> = [(0x1000, 0x9e000), (0x10_0000, 0x700_0000)]
            .map(|(address, bytes)| Piece { address, bytes })
            .into();
        let notes =
            [note(b"CORE", 1, &[7; 336]), note(VMCOREINFO, 0, b"OSRELEASE=6.1.0\n")].concat();
        let bytes = head(&ram, direct_map, &notes);
        let (info, offset, found) = of_core(&bytes).unwrap();
        assert_eq!((&*info, offset, found), ("OSRELEASE=6.1.0\n", direct_map, ram.clone()));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [&bytes[..], &[1; 8192]].concat()).unwrap();
        let needed = head_bytes(file.path().to_str().unwrap()).unwrap() as usize;
        assert!(needed <= bytes.len() && of_core(&bytes[..needed]).is_ok());
        let other = head(&ram, direct_map, &note(b"CORE", 1, &[7; 336]));
        assert!(of_core(&other).unwrap_err().to_string().contains("no vmcoreinfo"));
        assert!(of_core(b"text").is_err());
    }
}
