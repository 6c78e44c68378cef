//! Starting a node whose kernel sleeps in its memory: where it is, or brought there from a
//! snapshot.

use std::time::{Duration, Instant};

use kumiki_node_devices::record::Record;
use kumiki_node_image::image::{Image, KernelForm};
use kumiki_node_image::snapshot::Snapshot;
use kumiki_node_image::snapshot::lead_in::lead_in;
use kumiki_node_image::snapshot::pages::Places;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::asleep::Asleep;
use kumiki_node_wire::early::StartId;
use kumiki_node_wire::stages::{Loading, Stages, timed};

use super::{Node, Stopped};
use crate::{Error, ErrorKind, Result, Subject};

/// Time that a node that was to be kept, and was not, may take to go on.
const GO_ON_LIMIT: Duration = Duration::from_secs(30);

impl Node {
    /// Starts the node from a snapshot that was taken of it, and waits until the agent answers.
    pub fn start_snapshot(&self, name: &str, limit: Duration) -> Result<Stages> {
        let stopped = self.stopped()?;
        let mut loading = Loading::since(Instant::now());
        let snapshot = Snapshot::open(name)?;
        snapshot.suits(&stopped.entry, &stopped.record)?;
        is_of_its_image(&snapshot, &self.name, &stopped.record)?;
        let places = snapshot.places();
        let memory = stopped.device.map_within(places.pieces(), Access::Write, limit)?;
        let parts = &mut loading.parts;
        timed(&mut parts.copy_kernel_ms, || snapshot.load(&memory))?;
        let (wake, tables) = (snapshot.header.wake, snapshot.header.tables);
        timed(&mut parts.plan_ms, || {
            lead_in(&stopped.entry, &stopped.window, (&memory, &places), (wake, tables))
        })?;
        drop(memory);
        // It has all that it had when it was kept.
        stopped.window.all_used(stopped.record.parts(&stopped.entry.pieces).1);
        let begun = stopped.launch(loading, stopped.record.clone(), Some(name))?;
        stopped.until_ready(begun, StartId::now(), limit)
    }

    /// Starts it from this snapshot, if there is one that suits it, and else from its image.
    pub(crate) fn start_kept(&self, from: Option<&str>, limit: Duration) -> Result<Stages> {
        match from {
            Some(from) if self.why_not(from).is_none() => self.start_snapshot(from, limit),
            _ => self.start(KernelForm::Vmlinux, limit),
        }
    }

    /// Reason for which it does not start from this snapshot: that is not there, or damaged, or
    /// another node's.
    pub(crate) fn why_not(&self, from: &str) -> Option<Error> {
        let look = || -> Result<()> {
            let stopped = self.stopped()?;
            let snapshot = Snapshot::open(from)?;
            snapshot.runs()?;
            snapshot.suits(&stopped.entry, &stopped.record)?;
            is_of_its_image(&snapshot, &self.name, &stopped.record)
        };
        look().err()
    }
}

impl Stopped {
    /// Has a kernel that sleeps in this node's own memory go on.
    pub(super) fn wake_here(&self, asleep: &Asleep) -> Result<()> {
        let places = Places::of(self.entry.slice, &self.entry.pieces);
        let memory = self.device.map(places.pieces(), Access::Write)?;
        lead_in(&self.entry, &self.window, (&memory, &places), (asleep.wake, asleep.tables))?;
        drop(memory);
        let (record, from) = (self.record.clone(), self.record.started_from.as_deref());
        let begun = self.launch(Loading::since(Instant::now()), record, from)?;
        self.until_ready(begun, StartId::now(), GO_ON_LIMIT).map(drop)
    }
}

/// Refuses a snapshot of another kernel than the node's, and of a root that is elsewhere by
/// now.
pub(super) fn is_of_its_image(snapshot: &Snapshot, node: &str, record: &Record) -> Result<()> {
    let (name, header, own) = (snapshot.name(), &snapshot.header, &record.image);
    let image = match Image::open(own) {
        Ok(image) => image,
        // It has all that it needs.
        Err(_) if header.root.is_none() && header.image == *own => return Ok(()),
        Err(error) => return Err(error),
    };
    if header.image_sha256.as_deref() != Some(image.sha256()) {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::image(name),
            format!(
                "snapshot {name} has the kernel and the module of image {}, and node {} is made of \
             image {own}, which has others: start the node from that, and keep it again",
                header.image, node
            ),
        ));
    }
    if header.root != image.root() {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::image(name),
            format!(
                "the root that the kernel of snapshot {name} sees is not where image {own} has it \
             by now: start node {} from the image, and keep it again",
                node
            ),
        ));
    }
    Ok(())
}
