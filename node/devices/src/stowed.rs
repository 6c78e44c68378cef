//! Nodes that sleep in a file: what would stand in their memory is noted below /run.
//!
//! While there is a note, the file is what the node is, whatever is in its memory: the note is
//! written when the file is whole, and goes when its memory is.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use kumiki_boot::Piece;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::sysfs;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::record::{self, Record, stowed_note};
use crate::{Error, Result};

/// A node that sleeps in a file: the file, and the node as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stowed {
    /// Its memory.
    pub file: PathBuf,
    /// Hash of all that is in it.
    pub identity: String,
    pub record: Record,
    /// Pieces of its memory, which it has to have again.
    pub pieces: Vec<Piece>,
    /// Blocks of that which were off line, and are on line now.
    pub blocks: Vec<u64>,
}

impl Stowed {
    /// The node of this name, if it sleeps in a file.
    pub fn of(name: &str) -> Result<Option<Self>> {
        let path = stowed_note(name)?;
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| Error::file(&path, error))?,
        };
        let stowed = serde_json::from_slice(&text)
            .map_err(|error| Error::file(&path, std::io::Error::from(error)))?;
        Ok(Some(stowed))
    }

    /// Notes it: from now on it is in its file.
    pub fn note(&self) -> Result<()> {
        let path = stowed_note(&self.record.name)?;
        let failed = |error: std::io::Error| Error::file(&path, error);
        let json = serde_json::to_vec(self).map_err(|error| failed(error.into()))?;
        let mut file = NamedTempFile::new_in(path.parent().unwrap_or(&path)).map_err(failed)?;
        file.write_all(&json).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Forgets the note: from now on the node is in its memory, or nowhere; the file goes.
    pub fn forget(self) -> Result<()> {
        forget(&self.record.name)?;
        // It is of no use to anybody, and only takes room.
        let _ = fs::remove_file(&self.file);
        Ok(())
    }
}

/// Forgets a node of this name, which there is not, as after the module was unloaded.
pub fn forget(name: &str) -> Result<()> {
    let path = stowed_note(name)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file(path, error)),
        _ => Ok(()),
    }
}

/// A node's record, where its making was not interrupted: in its window, or noted while it sleeps
/// in a file.
pub fn record_of(device: &Device, entry: &sysfs::Status) -> Result<Option<Record>> {
    let noted = || -> Result<Option<Record>> {
        Ok(Stowed::of(&entry.name)?.filter(|_| !entry.runs()).map(|stowed| stowed.record))
    };
    match noted()? {
        Some(record) => Ok(Some(record)),
        None if entry.pieces.is_empty() => Ok(None),
        None => match record::window(device, entry, Access::Read) {
            Ok((_, record)) => Ok(record),
            // Its memory may have gone meanwhile.
            Err(error) => noted()?.map_or(Err(error), |record| Ok(Some(record))),
        },
    }
}
