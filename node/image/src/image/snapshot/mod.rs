//! Snapshots: the memory of a node whose kernel sleeps, kept as an image that the same node is
//! started from.
//!
//! ```text
//!   magic, length, SHA-256 | JSON: whose, where in its kernel    64 KiB, HEAD_BYTES
//!   runs of pages: address, number, whether they are all zeros
//!   the pages of the runs that are not, one after the other
//! ```
//!
//! Everything in it is physical addresses of the partition that it was taken of: it is started
//! there, or not at all.

pub mod file;
pub mod lead_in;
pub mod pages;

use std::sync::atomic::Ordering;

use kumiki_boot::Piece;
use kumiki_node_devices::record::Record;
use kumiki_node_devices::spec::Assigned;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::asleep::Asleep;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hash::hex;
use crate::identity::Identity;
use crate::image::{Image, incomplete};
use crate::origin::Extent;
use crate::{Error, ErrorKind, Result, Subject, json, root};
use pages::{PAGE_BYTES, Places, RUN_BYTES, Run};

pub const MAGIC: u64 = u64::from_le_bytes(*b"kumiksnp");
/// Version of the header.
pub const VERSION: u32 = 2;
/// Length of magic, length, hash and JSON.
pub const HEAD_BYTES: u64 = 64 << 10;
const JSON_AT: usize = 16 + 32;

/// Description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub version: u32,
    /// The machine that it was taken on.
    pub machine: Identity,
    /// Version of the window between node and host.
    pub abi: u32,
    /// The node that it was taken of.
    pub node: String,
    /// Image of that node, and its hash.
    pub image: String,
    pub image_sha256: Option<String>,
    /// Release of its kernel, where the image says it.
    pub release: Option<String>,
    /// Memory of that image which the node sees, and has not copied.
    pub root: Option<Piece>,
    pub slice: u64,
    pub pieces: Vec<Piece>,
    pub apic_ids: Vec<u32>,
    pub devices: Vec<Assigned>,
    /// Address at which its kernel goes on, and its first page table.
    pub wake: u64,
    pub tables: u64,
    pub runs: Extent,
    pub runs_sha256: String,
    pub pages: Extent,
    pub pages_sha256: String,
    /// True if a node sleeps in it: its mounts are as it left them, so that it goes on from there,
    /// and nobody else does.
    #[serde(default)]
    pub once: bool,
}

impl Header {
    /// Describes a node that sleeps, without the parts.
    pub fn of(
        entry: &sysfs::Status,
        record: &Record,
        asleep: &Asleep,
        image: Option<&Image>,
    ) -> Self {
        let none = Extent { at: 0, bytes: 0 };
        Header {
            version: VERSION,
            machine: Identity::of_host(),
            abi: abi::VERSION,
            node: record.name.clone(),
            image: record.image.clone(),
            image_sha256: image.map(|image| image.sha256().to_owned()),
            release: image.and_then(Image::release).map(str::to_owned),
            root: image.and_then(Image::root),
            slice: entry.slice,
            pieces: entry.pieces.clone(),
            apic_ids: entry.cpus.iter().map(|&(_, id)| id).collect(),
            devices: record.devices.clone(),
            wake: asleep.wake,
            tables: asleep.tables,
            runs: none,
            runs_sha256: String::new(),
            pages: none,
            pages_sha256: String::new(),
            once: false,
        }
    }

    /// True if a node has the place that it was taken of.
    pub fn has_place_of(&self, node: &sysfs::Status) -> bool {
        let apic_ids = node.cpus.iter().map(|&(_, id)| id);
        node.slice == self.slice
            && node.pieces == self.pieces
            && apic_ids.eq(self.apic_ids.iter().copied())
    }
}

/// A snapshot, mapped for reading.
#[derive(Debug)]
pub struct Snapshot {
    name: String,
    pub header: Header,
    memory: Memory,
    // Holds the image: it cannot be removed while a descriptor is open.
    _device: Option<Device>,
}

/// Place of each part behind the head, and the length of all.
pub fn layout(runs: &[Run]) -> (Extent, Extent, u64) {
    let table = Extent { at: HEAD_BYTES, bytes: (runs.len() * RUN_BYTES) as u64 };
    let kept = runs.iter().filter(|run| !run.zeros).map(Run::bytes).sum();
    let pages = Extent { at: (table.at + table.bytes).next_multiple_of(PAGE_BYTES), bytes: kept };
    (table, pages, (pages.at + pages.bytes).next_multiple_of(abi::PIECE_UNIT))
}

/// Copies the pages of a node's memory, mapped as its places are, and the table of them.
pub fn copy_pages(into: &Memory, from: &Memory, places: &Places, runs: &[Run]) {
    let (table, pages, _) = layout(runs);
    let bytes: Vec<u8> = runs.iter().flat_map(|run| run.to_bytes()).collect();
    into.write(table.at as usize, &bytes);
    let mut at = pages.at as usize;
    for run in runs.iter().filter(|run| !run.zeros) {
        let (length, place) = (run.bytes(), places.offset(run.address, run.bytes()));
        let place = place.expect("it was found there");
        into.copy(at, from, place, length as usize);
        at += length as usize;
    }
}

/// Writes the head, last: the hashes are of what stands behind it.
pub fn write_head(into: &Memory, header: &Header) -> Result<()> {
    into.write(0, &head(header)?);
    Ok(())
}

/// The first bytes.
fn head(header: &Header) -> Result<Vec<u8>> {
    let json = json(header)?;
    if (JSON_AT + json.len()) as u64 > HEAD_BYTES {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::limit(
                "bytes of a snapshot's description",
                json.len(),
                HEAD_BYTES as usize - JSON_AT,
            ),
            format!(
                "the description of a snapshot of node {} has {} bytes; at most {} fit: give the node \
             fewer devices, or shorter paths",
                header.node,
                json.len(),
                HEAD_BYTES as usize - JSON_AT
            ),
        ));
    }
    let length = json.len() as u64;
    let hash = Sha256::digest(&json);
    Ok([&MAGIC.to_le_bytes()[..], &length.to_le_bytes(), &hash, &json].concat())
}

/// Hash of a part, as the header has it.
pub fn hash_of(memory: &Memory, part: Extent) -> String {
    root::sha256(memory, part)
}

/// True if memory of an image is a snapshot's, damaged or not.
pub fn is_one(memory: &Memory) -> bool {
    memory.bytes() as u64 >= HEAD_BYTES && memory.u64(0).load(Ordering::Relaxed) == MAGIC
}

fn damaged(name: &str, what: &str) -> Error {
    Error::refused(
        ErrorKind::Damaged,
        Subject::image(name),
        format!(
            "snapshot {name} is damaged ({what}): something wrote to its memory; kumiki image rm \
         {name}, and keep the node again"
        ),
    )
}

impl Snapshot {
    /// Maps one.
    pub fn open(name: &str) -> Result<Self> {
        let device = Device::read(Holding::Image, name)?;
        let entry = sysfs::one(Holding::Image, name)?;
        if entry.state != "sealed" {
            return Err(incomplete(name));
        }
        let memory = device.map(&entry.pieces, Access::Read)?;
        Snapshot::of(name, memory, Some(device))
    }

    /// Finds a snapshot in memory that is mapped already.
    pub fn of(name: &str, memory: Memory, device: Option<Device>) -> Result<Self> {
        if !is_one(&memory) {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::image(name),
                format!(
                    "image {name} is no snapshot: kumiki node snapshot NODE {name} makes one under another \
                 name; kumiki image ls shows which are"
                ),
            ));
        }
        let header = header(name, &memory)?;
        Ok(Snapshot { name: name.to_owned(), header, memory, _device: device })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runs, checked: each lies where the node has memory.
    pub fn runs(&self) -> Result<Vec<Run>> {
        let part = self.header.runs;
        let mut bytes = vec![0; part.bytes as usize];
        self.memory.read(part.at as usize, &mut bytes);
        runs_in(&bytes, &self.header).map_err(|what| damaged(&self.name, what))
    }

    pub fn places(&self) -> Places {
        Places::of(self.header.slice, &self.header.pieces)
    }

    /// Writes a node's memory, mapped as its places are. What was free stays as it is.
    pub fn load(&self, into: &Memory) -> Result<()> {
        let places = self.places();
        let mut at = self.header.pages.at as usize;
        for run in self.runs()? {
            let place = places.offset(run.address, run.bytes()).expect("runs are checked");
            let length = run.bytes() as usize;
            if run.zeros {
                into.zero(place, length);
            } else {
                into.copy(place, &self.memory, at, length);
                at += length;
            }
        }
        Ok(())
    }

    /// Compares its pages with the hash that was taken when they were kept; what differs.
    pub fn verify(&self) -> Result<Option<&'static str>> {
        self.runs()?;
        let same = hash_of(&self.memory, self.header.pages) == self.header.pages_sha256;
        Ok((!same).then_some("its copy of the node's pages"))
    }

    /// Refuses a node that it was not taken of, by what differs.
    pub fn suits(&self, entry: &sysfs::Status, record: &Record) -> Result<()> {
        let header = &self.header;
        let other = |what: &str, has: String, wants: String| {
            Err(Error::refused(
                ErrorKind::Invalid,
                Subject::image(&self.name),
                format!(
                    "snapshot {} was taken of a node with {what} {wants}, and node {} has {has}: a \
                 snapshot is started where it was taken of, and nowhere else",
                    self.name, entry.name
                ),
            ))
        };
        let ranges =
            |pieces: &[Piece]| pieces.iter().map(sysfs::range).collect::<Vec<_>>().join(", ");
        let apic_ids: Vec<u32> = entry.cpus.iter().map(|&(_, id)| id).collect();
        if entry.slice != header.slice {
            return other(
                "its slice below 1 MiB at",
                format!("{:#x}", entry.slice),
                format!("{:#x}", header.slice),
            );
        }
        if entry.pieces != header.pieces {
            return other("memory at", ranges(&entry.pieces), ranges(&header.pieces));
        }
        if apic_ids != header.apic_ids {
            return other(
                "cpus of the APIC ids",
                format!("{apic_ids:?}"),
                format!("{:?}", header.apic_ids),
            );
        }
        let shown = |devices: &[Assigned], node: &str| {
            let one = |device: &Assigned| match device.device.kind() {
                "net" => format!("{} ({})", device.name, device.mac(node)),
                kind => format!("{} ({kind})", device.name),
            };
            let names: Vec<String> = devices.iter().map(one).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let (has, wants) =
            (shown(&record.devices, &record.name), shown(&header.devices, &header.node));
        let slots = |devices: &[Assigned]| -> Vec<usize> {
            devices.iter().map(|device| device.slot).collect()
        };
        if has != wants || slots(&record.devices) != slots(&header.devices) {
            return other("the devices", has, wants);
        }
        if header.abi != abi::VERSION {
            return Err(Error::refused(
                ErrorKind::Unsupported,
                Subject::image(&self.name),
                format!(
                    "snapshot {} has osnode-guest.ko of version {}, and this kumiki is of {}: start \
                 the node from its image, and keep it again",
                    self.name,
                    header.abi,
                    abi::VERSION
                ),
            ));
        }
        Ok(())
    }
}

/// The runs of a table, each of which lies where the node has memory; what is wrong with it.
fn runs_in(table: &[u8], header: &Header) -> std::result::Result<Vec<Run>, &'static str> {
    if hex(Sha256::new_with_prefix(table)) != header.runs_sha256 {
        return Err("the hash of its table of pages");
    }
    let entries = table.chunks_exact(RUN_BYTES).filter_map(<[u8]>::first_chunk);
    let runs: Vec<Run> = entries.map(Run::of_bytes).collect();
    let places = Places::of(header.slice, &header.pieces);
    let is_inside = |run: &Run| places.offset(run.address, run.bytes()).is_some();
    let kept: u64 = runs.iter().filter(|run| !run.zeros).map(Run::bytes).sum();
    if !runs.iter().all(is_inside) || kept != header.pages.bytes {
        return Err("a page beyond the node's memory");
    }
    Ok(runs)
}

/// The header, if it is as it was written.
pub fn header(name: &str, memory: &Memory) -> Result<Header> {
    let mut head = vec![0; HEAD_BYTES as usize];
    memory.read(0, &mut head);
    read_head(&head, memory.bytes() as u64).map_err(|what| damaged(name, &what))
}

/// The header in a head, of an image of so many bytes; what is wrong with it.
fn read_head(head: &[u8], bytes: u64) -> std::result::Result<Header, String> {
    let length = u64::from_le_bytes(std::array::from_fn(|n| head[8 + n]));
    let json = usize::try_from(length).ok().and_then(|length| {
        let end = JSON_AT.checked_add(length)?;
        head.get(JSON_AT..end)
    });
    let json = json.ok_or("the length of its header")?;
    if Sha256::digest(json)[..] != head[16..JSON_AT] {
        return Err("the hash of its header".to_owned());
    }
    let header: Header = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    for part in [header.runs, header.pages] {
        if part.at.checked_add(part.bytes).is_none_or(|end| end > bytes) {
            return Err("a part beyond its memory".to_owned());
        }
    }
    if !header.runs.bytes.is_multiple_of(RUN_BYTES as u64) || header.pieces.is_empty() {
        return Err("a part of another length".to_owned());
    }
    Ok(header)
}

/// Digits of a hash of all of it: what its header says stands for the rest.
pub fn identity(header: &Header) -> String {
    let mut hash = Sha256::new();
    hash.update(&header.runs_sha256);
    hash.update(&header.pages_sha256);
    hex(hash)
}

#[cfg(test)]
mod tests {
    use kumiki_boot::WINDOW_BYTES;

    use super::*;

    pub(super) const FREE: [(u64, u64); 1] = [((1 << 18) + 3, 2)];

    /// Snapshot of a node of 8 pages beside its window, of which three are filled and two free.
    pub(super) fn made() -> (Memory, Memory, Header) {
        let first = Piece { address: 1 << 30, bytes: 8 * PAGE_BYTES + WINDOW_BYTES };
        let places = Places::of(0x3_0000, &[first]);
        let node = Memory::zeroed(places.bytes());
        for page in [0, 2, 3, 9] {
            node.write(page * 4096 + 100, &[page as u8 + 1; 50]);
        }
        let runs = places.runs(&node, &FREE);
        let (table, pages, total) = layout(&runs);
        let image = Memory::zeroed(total);
        copy_pages(&image, &node, &places, &runs);
        let header = Header {
            version: VERSION,
            machine: Identity::of_host(),
            abi: abi::VERSION,
            node: "n1".into(),
            image: "deb".into(),
            image_sha256: None,
            release: None,
            root: None,
            slice: 0x3_0000,
            pieces: vec![first],
            apic_ids: vec![3],
            devices: vec![],
            wake: 0xffff_ffff_c000_0000,
            tables: 1 << 30,
            runs: table,
            runs_sha256: hash_of(&image, table),
            pages,
            pages_sha256: hash_of(&image, pages),
            once: false,
        };
        write_head(&image, &header).unwrap();
        (image, node, header)
    }

    #[test]
    fn what_was_kept_comes_back_and_what_was_free_stays() {
        let (image, node, header) = made();
        assert_eq!(header.pages.bytes, 3 * PAGE_BYTES);
        let snapshot = Snapshot::of("warm", image, None).unwrap();
        assert_eq!((&snapshot.header, snapshot.verify().unwrap()), (&header, None));
        let bytes = snapshot.places().bytes();
        let again = Memory::zeroed(bytes);
        (0..bytes as usize).step_by(64).for_each(|at| again.write(at, &[0xa5; 64]));
        snapshot.load(&again).unwrap();
        for page in 0..16 {
            let (mut had, mut has) = ([0; 4096], [0; 4096]);
            node.read(page * 4096, &mut had);
            again.read(page * 4096, &mut has);
            let free = page == 3 || page == 4;
            assert_eq!(has, if free { [0xa5; 4096] } else { had }, "page {page}");
        }
    }

    /// One byte, wherever it is, is seen by the check of its part.
    #[test]
    fn a_byte_that_is_not_as_it_was_is_seen_by_its_part() {
        let says = |at: usize, bit: u8| {
            let (image, ..) = made();
            let mut byte = [0];
            image.read(at, &mut byte);
            image.write(at, &[byte[0] ^ bit]);
            match Snapshot::of("warm", image, None) {
                Err(error) => error.to_string(),
                Ok(snapshot) => match snapshot.verify() {
                    Err(error) => error.to_string(),
                    Ok(found) => found.unwrap_or("nothing").to_owned(),
                },
            }
        };
        let (_, _, header) = made();
        for (at, part) in [
            (0, "is no snapshot"),
            (8, "the hash of its header"),
            (15, "the length of its header"),
            (16, "the hash of its header"),
            (47, "the hash of its header"),
            (JSON_AT, "the hash of its header"),
            (JSON_AT + 200, "the hash of its header"),
            (header.runs.at as usize, "the hash of its table of pages"),
            ((header.runs.at + header.runs.bytes) as usize - 1, "the hash of its table of pages"),
            (header.pages.at as usize, "its copy of the node's pages"),
            ((header.pages.at + header.pages.bytes) as usize - 1, "its copy of the node's pages"),
        ] {
            for bit in [1, 0x80] {
                let said = says(at, bit);
                assert!(said.contains(part), "byte {at}: {said}");
            }
        }
    }

    #[test]
    fn a_node_that_it_was_not_taken_of_is_refused_by_what_differs() {
        let (image, ..) = made();
        let snapshot = Snapshot::of("warm", image, None).unwrap();
        let entry = sysfs::Status {
            name: "n2".into(),
            state: "stopped".into(),
            owner: 0,
            pieces: snapshot.header.pieces.clone(),
            cpus: vec![(3, 3)],
            slice: 0x3_0000,
            word: 0,
        };
        let record: Record = serde_json::from_str(
            r#"{"version":1,"name":"n2","image":"deb","cpus":[3],"command_line":""}"#,
        )
        .unwrap();
        snapshot.suits(&entry, &record).unwrap();
        let piece = Piece { address: 3 << 30, ..entry.pieces[0] };
        for (other, says) in [
            (
                sysfs::Status { slice: 0x4_0000, ..entry.clone() },
                "its slice below 1 MiB at 0x30000",
            ),
            (sysfs::Status { pieces: vec![piece], ..entry.clone() }, "memory at 0x40000000-"),
            (
                sysfs::Status { cpus: vec![(2, 2)], ..entry.clone() },
                "the APIC ids [3], and node n2 has [2]",
            ),
        ] {
            let error = snapshot.suits(&other, &record).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let mut with_disk = record.clone();
        let disk =
            r#"{"name":"disk0","slot":0,"disk":{"file":"/d","read_only":true,"serial":null}}"#;
        with_disk.devices.push(serde_json::from_str(disk).unwrap());
        let error = snapshot.suits(&entry, &with_disk).unwrap_err().to_string();
        assert!(error.contains("the devices none, and node n2 has disk0 (disk)"), "{error}");
        let mut older = snapshot;
        older.header.abi -= 1;
        assert!(older.suits(&entry, &record).unwrap_err().to_string().contains("osnode-guest.ko"));
    }
}
