//! Keeping a node: its kernel sleeps, its cpus are stopped, and its memory is copied into an image
//! of its own, a snapshot, that it is started from again.

use std::time::Instant;

use kumiki_node_devices::record::{self, Record, incomplete};
use kumiki_node_devices::spec::DeviceSpec;
use kumiki_node_image::image::{self, Image};
use kumiki_node_image::snapshot::pages::{Places, Run};
use kumiki_node_image::snapshot::{Header, copy_pages, hash_of, layout, write_head};
use kumiki_node_image::watchmen::abandon;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::asleep::Asleep;
use kumiki_node_wire::device::{self, Device};
use kumiki_node_wire::module::holding::{Holding, padded};
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::window::{Window, has_ended};
use serde::Serialize;

use super::{Node, Stopped};
use crate::node::session::Session;
use crate::{Error, ErrorKind, Result, Subject};

/// A node that was kept.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotTaken {
    /// The snapshot's name.
    pub image: String,
    /// Memory that it takes.
    pub bytes: u64,
    /// Part of that: the node's pages.
    pub kept_bytes: u64,
    /// Pages of the node that are all zeros, of which nothing else is kept.
    pub zero_bytes: u64,
    /// Pages that its kernel has free, which are not kept.
    pub free_bytes: u64,
    /// Time from the wish to the last instruction of its kernel.
    pub asleep_ms: f64,
    /// Copying its memory.
    pub copy_ms: f64,
    /// Hashing the copy.
    pub hash_ms: f64,
}

impl Node {
    /// Has the node's kernel sleep, and keeps its memory as an image of this name, from which
    /// [`start_snapshot`](Node::start_snapshot) starts it as often as one likes. The node is
    /// stopped then. If its memory cannot be kept it goes on.
    pub fn take_snapshot(&self, name: &str) -> Result<SnapshotTaken> {
        padded(Holding::Image, name)?;
        if sysfs::exists(Holding::Image, name) {
            return Err(device::exists(Holding::Image, name));
        }
        let (device, window, record) = self.that_may_sleep()?;
        let begin = Instant::now();
        Session::open_by_host(&self.name)?.sleep(false)?;
        let asleep_ms = ms_since(begin);
        // Nothing of it executes or waits for a write from here on.
        self.end(&device)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        let asleep = window.asleep();
        let node = Node { name: self.name.clone() };
        let stopped = Stopped { node, device, entry, window, record, taps: Vec::new() };
        stopped.copied(name, &asleep).map(|kept| SnapshotTaken { asleep_ms, ..kept }).map_err(
            |error| {
                let left = match stopped.wake_here(&asleep) {
                    Ok(()) => "the node goes on".to_owned(),
                    Err(wake) => format!("the node does not go on: {wake}"),
                };
                let text = format!("{error}; {left}");
                error.reworded(text)
            },
        )
    }

    /// Refuses a node that cannot sleep, as far as its host sees that.
    pub(super) fn that_may_sleep(&self) -> Result<(Device, Window, Record)> {
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        if entry.state != "running" || entry.word != abi::WORD_READY {
            let word = if entry.state != "running" || has_ended(entry.word) {
                "does not run"
            } else {
                "is not ready yet"
            };
            return Err(Error::refused(
                ErrorKind::NotRunning,
                Subject::node(&self.name),
                format!(
                    "node {} {word}: what is kept is a node that answers; kumiki node ls",
                    self.name
                ),
            ));
        }
        let (window, record) = record::window(&device, &entry, Access::Write)?;
        let record = record.ok_or_else(|| incomplete(&self.name))?;
        if window.is_lent() {
            return Err(Error::refused(
                ErrorKind::Running,
                Subject::node(&self.name),
                format!(
                    "node {} is lent, and its starter's: kumiki node stop {0} takes it back",
                    self.name
                ),
            ));
        }
        if let Some(function) = record.pci.first() {
            return Err(Error::refused(
                ErrorKind::Unsupported,
                Subject::Function(function.to_string()),
                format!(
                    "node {} has PCI function {function}, which is reset when the node is stopped, and \
                     its driver would wake up to another device: kumiki node device rm {0} \
                     pci:{function}",
                    self.name
                ),
            ));
        }
        let share =
            record.devices.iter().find(|device| matches!(device.device, DeviceSpec::Share(_)));
        if let Some(share) = share {
            return Err(Error::refused(
                ErrorKind::Unsupported,
                Subject::device(&self.name, &share.name),
                format!(
                    "node {} has the folder {share}, whose driver does not sleep: kumiki node device \
                 rm {0} {share}",
                    self.name,
                    share = share.name
                ),
            ));
        }
        Ok((device, window, record))
    }
}

fn ms_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

impl Stopped {
    /// Copies the memory of a node that is stopped, and whose kernel sleeps.
    fn copied(&self, name: &str, asleep: &Asleep) -> Result<SnapshotTaken> {
        let (entry, record) = (&self.entry, &self.record);
        // A node runs on without its image, unless it sees a root there.
        let image = Image::open(&record.image).ok();
        let image = image.as_ref();
        let places = Places::of(entry.slice, &entry.pieces);
        let begin = Instant::now();
        let memory = self.device.map(places.pieces(), Access::Read)?;
        let runs = places.runs(&memory, &asleep.free);
        let (table, pages, total) = layout(&runs);
        let (device, _) = Device::create(Holding::Image, name)?;
        let mut hash_ms = 0.0;
        let filled = image::sealed(&device, total, abi::PIECE_UNIT, |into| {
            copy_pages(into, &memory, &places, &runs);
            let begin = Instant::now();
            let header = Header {
                runs: table,
                runs_sha256: hash_of(into, table),
                pages,
                pages_sha256: hash_of(into, pages),
                ..Header::of(entry, record, asleep, image)
            };
            hash_ms = ms_since(begin);
            write_head(into, &header)
        });
        if let Err(error) = filled {
            abandon(&device);
            return Err(error);
        }
        let zero_bytes = runs.iter().filter(|run| run.zeros).map(Run::bytes).sum();
        Ok(SnapshotTaken {
            image: name.to_owned(),
            bytes: total,
            kept_bytes: pages.bytes,
            zero_bytes,
            free_bytes: places.bytes() - pages.bytes - zero_bytes,
            asleep_ms: 0.0,
            copy_ms: ms_since(begin) - hash_ms,
            hash_ms,
        })
    }
}
