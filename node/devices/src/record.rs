//! A node's record, kept in its own window: what it was made of.

use std::path::PathBuf;

use kumiki_boot::{Piece, WINDOW_BYTES};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::window::Window;
use serde::{Deserialize, Serialize};

use crate::pci::Function;
use crate::spec::Assigned;
use crate::{Error, ErrorKind, Result, Subject, json, runtime};

/// Fewest and most cpus of a node that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elastic {
    /// Number that it always has.
    pub min: usize,
    /// Number that it never exceeds.
    pub max: usize,
}

impl Elastic {
    /// Limits of a node that begins with so many, where a person has given one or both.
    pub fn of(min: Option<usize>, max: Option<usize>, count: usize) -> Option<Self> {
        (min.is_some() || max.is_some())
            .then(|| Elastic { min: min.unwrap_or(1), max: max.unwrap_or(count) })
    }
}

/// Limits of a node's memory while it runs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimits {
    /// Bytes that it always has, of which those that it was started with are some.
    pub min: u64,
    /// Bytes that it never exceeds.
    pub max: u64,
}

impl MemoryLimits {
    /// Limits of a node that begins with so many bytes, where a person has given one or both.
    pub fn of(min: Option<u64>, max: Option<u64>, bytes: u64) -> Option<Self> {
        (min.is_some() || max.is_some())
            .then(|| MemoryLimits { min: min.unwrap_or(0), max: max.unwrap_or(bytes) })
    }
}

/// Parts that a node was made of; kept in its own memory, so that whoever finds the
/// node finds this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the record.
    version: u32,
    /// Its name, which becomes the node's host name.
    pub name: String,
    /// The image that it starts from.
    pub image: String,
    /// The host's cpus that it has, or was about to get; the first starts first.
    pub cpus: Vec<u32>,
    /// NUMA nodes of its memory, if a person has named some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<u32>,
    /// Number of its pieces of memory that it is started with; what came after them it adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<usize>,
    /// Limits of the number of cpus while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Elastic>,
    /// Limits of its memory while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLimits>,
    /// Cpus that its kernel was told of when it started from its image, the first first: the host's
    /// number of each, and its APIC id. None of them may come that is not here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<(u32, u32)>,
    /// Words added to its kernel's command line.
    pub command_line: String,
    /// The node that starts it, if the host has left that to another one.
    #[serde(default)]
    pub lent_to: Option<String>,
    /// The snapshot that the other one may start it from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent_snapshot: Option<String>,
    /// Devices that its host serves it.
    #[serde(default)]
    pub devices: Vec<Assigned>,
    /// The init that it is handed over to.
    #[serde(default)]
    pub init: Option<String>,
    /// The snapshot that it was last started from, if it was one.
    #[serde(default)]
    pub started_from: Option<String>,
    /// True if it sleeps in its own memory, its cpus with the host, until somebody asks for it.
    #[serde(default)]
    pub idle: bool,
    /// PCI functions that it has for its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<Function>,
    /// Functions among these whose DMA the host's IOMMU confines to its memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confined: Vec<Function>,
}

impl Record {
    /// Begins with name, image and cpus, and nothing else.
    pub fn new(name: &str, image: &str, cpus: Vec<u32>) -> Self {
        Record {
            version: 1,
            name: name.to_owned(),
            image: image.to_owned(),
            cpus,
            numa: Vec::new(),
            pieces: None,
            elastic: None,
            memory: None,
            told: Vec::new(),
            command_line: String::new(),
            lent_to: None,
            lent_snapshot: None,
            devices: Vec::new(),
            init: None,
            started_from: None,
            idle: false,
            pci: Vec::new(),
            confined: Vec::new(),
        }
    }

    /// Parts of its memory: what its kernel is started with, and what it adds.
    pub fn parts<'a>(&self, pieces: &'a [Piece]) -> (&'a [Piece], &'a [Piece]) {
        pieces.split_at(self.pieces.map_or(pieces.len(), |count| count.min(pieces.len())))
    }

    /// Bytes that are kept in the window.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let json = json(self)?;
        if json.len() >= abi::RECORD_BYTES {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::limit("bytes of a node's record", json.len(), abi::RECORD_BYTES - 1),
                format!(
                    "node {}: a command line of {} bytes and {} devices are {} bytes to keep, of {} at \
                 most: give it shorter paths, or fewer devices",
                    self.name,
                    self.command_line.len(),
                    self.devices.len(),
                    json.len(),
                    abi::RECORD_BYTES - 1
                ),
            ));
        }
        Ok(json)
    }
}

/// The window in a node's first piece.
pub fn window_of(first: &Piece) -> Piece {
    Piece { address: first.end() - WINDOW_BYTES, bytes: WINDOW_BYTES }
}

/// A node's window, mapped, and the record in it if there is a whole one.
pub fn window(
    device: &Device,
    entry: &sysfs::Status,
    access: Access,
) -> Result<(Window, Option<Record>)> {
    let first = entry.pieces.first().ok_or_else(|| without_memory(&entry.name))?;
    let window = Window::new(device.map(&[window_of(first)], access)?);
    let record = serde_json::from_slice(&window.record()).ok();
    // Before it is written there is what was in that memory.
    let record = record.filter(|record: &Record| record.name == entry.name);
    Ok((window, record))
}

/// Path of the note about a node that sleeps in a file.
pub fn stowed_note(name: &str) -> Result<PathBuf> {
    runtime::file(&format!("{name}.stowed"))
}

/// Error for a node that has no memory.
fn without_memory(name: &str) -> Error {
    if stowed_note(name).is_ok_and(|note| note.exists()) {
        return Error::refused(
            ErrorKind::NotRunning,
            Subject::node(name),
            format!(
                "node {name} sleeps in a file, without memory: kumiki node exec {name} wakes it, \
                 kumiki node start {name} starts it anew"
            ),
        );
    }
    incomplete(name)
}

/// Error for a node that cannot do anything but go.
pub fn incomplete(name: &str) -> Error {
    Error::refused(
        ErrorKind::Damaged,
        Subject::node(name),
        format!(
            "node {name} is not complete: its making was interrupted; kumiki node rm {name}, and \
         make it again"
        ),
    )
}
