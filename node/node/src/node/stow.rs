//! A node that sleeps in a file, its memory with the host, until somebody asks for it.
//!
//! ```text
//!   asleep in its memory --file written, noted--> in its file --memory given back--> away
//!            ^                                                                       |
//!            +----- note gone <-- memory written from the file <-- memory taken <----+
//! ```
//!
//! Killed at any point it is either as it was or in its file. It goes on from that once: the disks
//! that it has mounted are written then.

use std::path::Path;

use kumiki_boot::Piece;
use kumiki_node_devices::record::{self, incomplete, window_of};
use kumiki_node_devices::stowed::Stowed;
use kumiki_node_image::image::Image;
use kumiki_node_image::reservation::leaves_enough;
use kumiki_node_image::snapshot::file::{self, Kernel};
use kumiki_node_image::snapshot::pages::Places;
use kumiki_node_image::snapshot::{Header, identity};
use kumiki_node_image::watchmen::Telling;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::asleep::Asleep;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::window::Window;

use super::Node;
use crate::{Error, ErrorKind, Result, Subject};

impl Node {
    /// Refuses a node whose memory would not be had again at its address.
    pub(crate) fn may_be_stowed(&self) -> Result<()> {
        let device = Device::read(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        self.blocks_of(&device, &entry.pieces).map(drop)
    }

    /// Blocks to take off line again when it is to have its memory.
    fn blocks_of(&self, device: &Device, pieces: &[Piece]) -> Result<Vec<u64>> {
        device.notes().to_take_again(pieces)?.ok_or_else(|| {
            Error::refused(
                ErrorKind::Unsupported, Subject::node(&self.name),
                format!(
                    "node {}: some of its memory is of this machine's own allocator, which would use \
                     it for what does not move: the node could not have it again where it was; make \
                     it with --memory-from offline, or boot",
                    self.name
                ),
            )
        })
    }

    /// Writes the memory of a node that sleeps there to a file, and gives it back to the host.
    /// Returns the file's length, bytes.
    pub(crate) fn stow(&self, to: &Path) -> Result<u64> {
        let _telling = Telling;
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        let blocks = self.blocks_of(&device, &entry.pieces)?;
        let (window, record) = record::window(&device, &entry, Access::Read)?;
        let record = record.ok_or_else(|| incomplete(&self.name))?;
        if entry.runs() || !record.idle || window.word() != abi::WORD_KEPT {
            return Err(Error::refused(
                ErrorKind::NotRunning,
                Subject::node(&self.name),
                format!("node {} does not sleep in its memory any more", self.name),
            ));
        }
        let asleep = window.asleep();
        // Nobody may have it mapped when it goes.
        drop(window);
        let places = Places::of(entry.slice, &entry.pieces);
        let image = Image::open(&record.image).ok();
        let bare = Header::of(&entry, &record, &asleep, image.as_ref());
        let memory = device.map(places.pieces(), Access::Read)?;
        let kernel = Kernel { memory: &memory, places: &places, free: &asleep.free };
        let (header, bytes) = file::stow(to, &kernel, Header { once: true, ..bare })?;
        drop(memory);
        let (file, identity, pieces) = (to.to_owned(), identity(&header), entry.pieces);
        Stowed { file, identity, record, pieces, blocks }.note()?;
        device.memory_back()?;
        Ok(bytes)
    }

    /// Brings its memory back from the file that it sleeps in, if it does: from then on it sleeps
    /// there.
    pub(crate) fn fetch(&self) -> Result<()> {
        let Some(stowed) = Stowed::of(&self.name)? else { return Ok(()) };
        let _telling = Telling;
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = self.with_memory(&device, &stowed)?;
        restored(&device, &entry, &stowed).or_else(|error| {
            // It is in its file still.
            device.memory_back()?;
            Err(error)
        })?;
        stowed.forget()
    }

    /// Has the memory of a node that sleeps in a file without what it was, which is lost: it is
    /// about to be started anew.
    pub(super) fn fetch_empty(&self, device: &Device) -> Result<()> {
        let Some(stowed) = Stowed::of(&self.name)? else { return Ok(()) };
        let _telling = Telling;
        let entry = self.with_memory(device, &stowed)?;
        let window = window(device, &entry)?;
        // Whatever has been there.
        window.say(abi::WORD_STOPPED);
        window.set_record(&stowed.record.to_json()?);
        stowed.forget()
    }

    /// Takes its memory from the host again: all of it, or none.
    fn with_memory(&self, device: &Device, stowed: &Stowed) -> Result<sysfs::Status> {
        // Of a try that was ended, or the last of its memory that was to go.
        device.memory_back()?;
        if !stowed.blocks.is_empty() {
            leaves_enough(stowed.pieces.iter().map(|piece| piece.bytes).sum())?;
            device.notes().take_again(&self.name, &stowed.blocks)?;
        }
        for piece in &stowed.pieces {
            if let Err(error) = device.claim(piece) {
                device.memory_back()?;
                return Err(error);
            }
        }
        sysfs::one(Holding::Node, &self.name)
    }
}

fn window(device: &Device, entry: &sysfs::Status) -> Result<Window> {
    let first = entry.pieces.first().ok_or_else(|| incomplete(&entry.name))?;
    Ok(Window::new(device.map(&[window_of(first)], Access::Write)?))
}

/// Writes the node's memory from its file.
fn restored(device: &Device, entry: &sysfs::Status, stowed: &Stowed) -> Result<()> {
    let places = Places::of(entry.slice, &entry.pieces);
    let memory = device.map(places.pieces(), Access::Write)?;
    let is_it = |header: &Header| {
        header.once
            && identity(header) == stowed.identity
            && (header.slice, &header.pieces) == (entry.slice, &entry.pieces)
    };
    let header = file::fetch(&stowed.file, &memory, &places, is_it)?;
    let window = window(device, entry)?;
    window.set_record(&stowed.record.to_json()?);
    window.fall_asleep(&Asleep { wake: header.wake, tables: header.tables, free: Vec::new() });
    Ok(())
}
