//! A watchman's order, which the host gives once and the node keeps: a watchman that dies is
//! followed by another one.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use kumiki_boot::Piece;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::abi;
use serde::{Deserialize, Serialize};

use super::core_file::Place;
use super::signs::Signs;
use super::voice::Voice;
use crate::{Error, Result};

const FOLDER: &str = "/run/kumiki";
const ORDER: &str = "/run/kumiki/watchman.json";
/// Order that was carried out.
const DONE: &str = "/run/kumiki/watchman.done";
/// Physical memory; the host's is not this kernel's own.
const MEMORY: &str = "/dev/mem";

/// All that a watchman must know before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Address of the host's signs of life.
    pub address: u64,
    /// Silence for so long means that the host is dead.
    pub after: Duration,
    /// File, disk or `tcp:HOST:PORT` that the vmcore is written to.
    pub to: Option<String>,
    /// `udp:HOST:PORT` that hears what it says.
    #[serde(default)]
    pub say: Option<String>,
    /// A line of shell, run at the end.
    pub then: Option<String>,
}

impl Order {
    /// The one that this node has.
    pub(super) fn read() -> Result<Option<Self>> {
        let text = match fs::read(ORDER) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file(ORDER, error)),
        };
        parse(&text).map(Some)
    }

    /// The signs that it is about.
    pub(super) fn signs(&self) -> Result<Signs> {
        let bytes = (abi::WATCH_BYTES as u64).next_multiple_of(4096);
        let device = File::open(MEMORY).map_err(|error| Error::file(MEMORY, error))?;
        let piece = Piece { address: self.address, bytes };
        Signs::of(Memory::map(std::os::fd::AsFd::as_fd(&device), &[piece], Access::Read)?)
    }
}

fn parse(text: &[u8]) -> Result<Order> {
    serde_json::from_slice(text)
        .map_err(|error| Error::Protocol(format!("no order for a watchman: {error}")))
}

/// Takes the host's order, or with an empty body its end. What cannot be done is refused now.
pub(crate) fn accept(body: &[u8]) -> Result<()> {
    if body.is_empty() {
        return match fs::remove_file(ORDER) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file(ORDER, error))
            }
            _ => Ok(()),
        };
    }
    let order = parse(body)?;
    order.to.as_deref().map_or(Ok(()), Place::check)?;
    order.say.as_deref().map_or(Ok(()), Voice::check)?;
    order.signs()?.host_description()?;
    fs::create_dir_all(FOLDER).map_err(|error| Error::file(FOLDER, error))?;
    let new = Path::new(ORDER).with_extension("new");
    fs::write(&new, body).map_err(|error| Error::file(&new, error))?;
    fs::rename(&new, ORDER).map_err(|error| Error::file(ORDER, error))
}

/// True if this node watches its host.
pub(crate) fn is_ordered() -> bool {
    Path::new(ORDER).exists()
}

/// The host has died, and all was done: nothing of it is done again.
pub(super) fn is_done() -> Result<()> {
    fs::rename(ORDER, DONE).map_err(|error| Error::file(ORDER, error))
}

/// The order, or the one that was carried out.
pub(super) fn last() -> Option<Order> {
    [ORDER, DONE].iter().find_map(|path| parse(&fs::read(path).ok()?).ok())
}
