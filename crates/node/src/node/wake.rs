//! Starting a node whose kernel sleeps in its memory: where it is, or brought there from a
//! snapshot.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kumiki_boot::{Partition, Plan, Source};
use rustix::rand::{GetRandomFlags, getrandom};

use super::{Node, Stopped};
use crate::image::snapshot::Snapshot;
use crate::image::snapshot::pages::Places;
use crate::image::{Image, KernelForm};
use crate::memory::Memory;
use crate::module::abi;
use crate::wire::asleep::{Asleep, Waking};
use crate::wire::early::StartId;
use crate::wire::stages::{Loading, Stages, timed};
use crate::wire::time_stamp;
use crate::{Error, ErrorKind, Result};

const TABLE_BYTES: u64 = 4096;
/// How long a node that was to be kept, and was not, may take to go on.
const GO_ON_LIMIT: Duration = Duration::from_secs(30);

impl Node {
    /// Starts the node from a snapshot that was taken of it, and waits until the agent answers.
    pub fn start_snapshot(&self, name: &str, limit: Duration) -> Result<Stages> {
        let stopped = self.stopped()?;
        let mut loading = Loading::since(Instant::now());
        let snapshot = Snapshot::open(name)?;
        snapshot.suits(&stopped.entry, &stopped.record)?;
        stopped.is_of_its_image(&snapshot)?;
        let places = snapshot.places();
        let memory = stopped.device.map(places.pieces(), true)?;
        let parts = &mut loading.parts;
        timed(&mut parts.copy_kernel_ms, || snapshot.load(&memory))?;
        let (wake, tables) = (snapshot.header.wake, snapshot.header.tables);
        timed(&mut parts.plan_ms, || stopped.lead_in(&memory, &places, wake, tables))?;
        drop(memory);
        let begun = stopped.launch(loading, Some(name))?;
        stopped.until_ready(begun, StartId::now(), limit)
    }

    /// Starts it from this snapshot, if there is one that suits it, and else from its image.
    pub(crate) fn start_kept(&self, from: Option<&str>, limit: Duration) -> Result<Stages> {
        match from {
            Some(from) if self.may_start(from) => self.start_snapshot(from, limit),
            _ => self.start(KernelForm::Vmlinux, limit),
        }
    }

    /// Whether a snapshot is there, whole, and this node's.
    fn may_start(&self, from: &str) -> bool {
        let look = || -> Result<()> {
            let stopped = self.stopped()?;
            let snapshot = Snapshot::open(from)?;
            snapshot.runs()?;
            snapshot.suits(&stopped.entry, &stopped.record)?;
            stopped.is_of_its_image(&snapshot)
        };
        look().is_ok()
    }
}

impl Stopped {
    /// Has a kernel that sleeps in this node's own memory go on.
    pub(super) fn wake_here(&self, asleep: &Asleep) -> Result<()> {
        let places = Places::of(self.entry.slice, &self.entry.pieces);
        let memory = self.device.map(places.pieces(), true)?;
        self.lead_in(&memory, &places, asleep.wake, asleep.tables)?;
        drop(memory);
        let from = self.record.started_from.as_deref();
        let begun = self.launch(Loading::since(Instant::now()), from)?;
        self.until_ready(begun, StartId::now(), GO_ON_LIMIT).map(drop)
    }

    /// Writes what leads from the SIPI to a kernel that sleeps in this memory, and what that is
    /// told as it wakes up.
    fn lead_in(&self, memory: &Memory, places: &Places, wake: u64, tables: u64) -> Result<()> {
        let name = &self.node.name;
        let partition = Partition::new(self.entry.slice, self.entry.pieces.clone())?;
        let at = places.offset(tables, TABLE_BYTES).filter(|at| at % TABLE_BYTES as usize == 0);
        let at = at.ok_or_else(|| {
            Error::refused(ErrorKind::Damaged, format!(
                "the kernel of node {name} says that its page table is at {tables:#x}, which is no \
                 page of its memory: its osnode-guest.ko is damaged"
            ))
        })?;
        let mut table = [0; TABLE_BYTES as usize];
        memory.read(at, &mut table);
        // They are the kernel's, and it needs them for its other cpus.
        let mut covered = [0; abi::COVERED_BYTES];
        let slice = places.offset(self.entry.slice, covered.len() as u64);
        memory.read(slice.expect("the slice is one of the places"), &mut covered);
        let stamp = abi::STAMPS + 8 * abi::STAMP_TRAMPOLINE;
        let kernel = kumiki_boot::Asleep { entry: wake, table: &table };
        let plan = Plan::wake(&partition, &kernel, stamp as u64)?;
        for write in plan.writes {
            let at = places.offset(write.address, write.source.bytes());
            if let (Some(at), Source::Bytes(bytes)) = (at, write.source) {
                memory.write(at, &bytes);
            }
        }
        let mut random = [0; abi::RANDOM_BYTES];
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|error| Error::os("taking random bytes for the node", error))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ticks = time_stamp();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.window.tell_waking(&Waking { covered: &covered, now_ns, now_ticks, random: &random });
        Ok(())
    }

    /// Refuses a snapshot of another kernel than the node's, and of a root that is elsewhere by
    /// now.
    fn is_of_its_image(&self, snapshot: &Snapshot) -> Result<()> {
        let (name, header, own) = (snapshot.name(), &snapshot.header, &self.record.image);
        let image = match Image::open(own) {
            Ok(image) => image,
            // It has all that it needs.
            Err(_) if header.root.is_none() && header.image == *own => return Ok(()),
            Err(error) => return Err(error),
        };
        if header.image_sha256.as_deref() != Some(image.sha256()) {
            return Err(Error::refused(
                ErrorKind::Invalid,
                format!(
                    "snapshot {name} has the kernel and the module of image {}, and node {} is made of \
                 image {own}, which has others: start the node from that, and keep it again",
                    header.image, self.node.name
                ),
            ));
        }
        if header.root != image.root() {
            return Err(Error::refused(
                ErrorKind::Invalid,
                format!(
                    "the root that the kernel of snapshot {name} sees is not where image {own} has it \
                 by now: start node {} from the image, and keep it again",
                    self.node.name
                ),
            ));
        }
        Ok(())
    }
}
