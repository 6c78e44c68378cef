//! A node from the host's side: make, start, look at, stop, delete.

pub mod copying;
pub(crate) mod doze;
mod folders;
mod functions;
pub(crate) mod hotplug;
pub(crate) mod lanes;
mod last_log;
pub(crate) mod plugging;
pub(crate) mod resize;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod stow;
pub(crate) mod usage;
mod wake;
pub(crate) mod watchman;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{io, thread};

use kumiki_boot::{Piece, WINDOW_BYTES};
use kumiki_node_devices::claims;
use kumiki_node_devices::clocks::Clocks;
use kumiki_node_devices::grant::Grant;
use kumiki_node_devices::record::{self, Record, incomplete, window_of};
use kumiki_node_devices::serve;
use kumiki_node_devices::stowed::{self, Stowed};
use kumiki_node_image::files::Files;
use kumiki_node_image::image::{Image, KernelForm};
use kumiki_node_image::ingredients::Ingredients;
use kumiki_node_image::initramfs::Base;
use kumiki_node_image::listing;
use kumiki_node_image::listing::NodeInfo;
use kumiki_node_image::load;
use kumiki_node_image::origin::Origin;
use kumiki_node_image::reservation;
use kumiki_node_image::snapshot::Snapshot;
use kumiki_node_image::watchmen::Telling;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::{Device, Dma, SLICE_LIMIT};
use kumiki_node_wire::early::{Early, PANIC, StartId};
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::memory::numa;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, doorbell, sysfs};
use kumiki_node_wire::silence::{panicked, silent};
use kumiki_node_wire::stages::{LoadParts, Loading, Stages, timed};
use kumiki_node_wire::window::{Window, has_ended};
use kumiki_node_wire::wish::Wish;

use crate::host::cpus;
use crate::host::spec::{Fault, MemorySource, Spec};
use crate::node::session::{LOG_LOOK, Session};
use crate::{Error, ErrorKind, Result, Subject, json};

/// Longest sleep between looks at a starting node, should a doorbell get lost.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Interval at which a kernel that has loaded no module yet is looked at for a panic.
const EARLY_LOOK: Duration = Duration::from_secs(1);

/// Time that a stop waits for another node that starts this one.
const STARTER_LIMIT: Duration = Duration::from_secs(30);

/// A node that exists.
#[derive(Debug)]
pub struct Node {
    pub(crate) name: String,
}

impl Node {
    /// Takes cpus and memory from the host for a node. Each size of memory is one
    /// contiguous piece if there is one. Undone if a step fails.
    pub fn create(spec: &Spec) -> Result<Self> {
        Self::made(spec).map_err(|error| error.about(|| Subject::node(&spec.name)))
    }

    fn made(spec: &Spec) -> Result<Self> {
        let name = &spec.name;
        let refused = |fault| impossible(name, &fault);
        spec.check().map_err(refused)?;
        let image = Image::open(&spec.image)?;
        let needs = image.needs();
        needs.check(&spec.image, &spec.memory_bytes).map_err(refused)?;
        if let Some(problem) = numa::lacks(&spec.numa) {
            return Err(refused(Fault::new("numa", problem)));
        }
        let record = spec.record(cpus::choose(&spec.cpus, &spec.numa)?);
        // One too long is refused here.
        record.to_json()?;
        claims::nobody_has(name, &record.devices)?;
        claims::host_leaves_all(&record.devices)?;
        let _telling = Telling;
        let device = Device::create_node(name, spec.slice())?;
        stowed::forget(name)?;
        if let Err(error) = furnish(
            &device,
            &record,
            (&spec.memory_bytes, spec.memory_from),
            needs.first_piece_bytes,
        ) {
            return Err(match give_back(&device, &record.cpus) {
                Ok(()) => error,
                Err(left) => {
                    let text = format!(
                        "{error}; and this could not be undone: {left}: kumiki node rm {name}"
                    );
                    error.reworded(text)
                }
            });
        }
        // Each of what follows attaches to the node itself.
        drop(device);
        let node = Node { name: name.clone() };
        for &function in &spec.pci {
            if let Err(error) = node.add_function(function, spec.dma()) {
                node.delete()?;
                return Err(error);
            }
        }
        Ok(node)
    }

    /// A node that exists.
    pub fn find(name: &str) -> Result<Self> {
        sysfs::one(Holding::Node, name)?;
        Ok(Node { name: name.to_owned() })
    }

    /// Copies the image into the node's memory, starts its first cpu and waits
    /// until the agent answers.
    pub fn start(&self, form: KernelForm, limit: Duration) -> Result<Stages> {
        let stopped = self.stopped()?;
        let begin = Instant::now();
        let image = Image::open(&stopped.record.image)?;
        stopped.start(&image.origin(form)?, Loading::since(begin), limit, |_| Ok(()))
    }

    /// Begins a start without the wait: whether it becomes ready is seen in [`Node::list`]. Returns
    /// what of its devices is not served, and why.
    pub fn begin(&self, form: KernelForm) -> Result<Vec<String>> {
        let loading = Loading::since(Instant::now());
        let stopped = self.stopped()?;
        let image = Image::open(&stopped.record.image)?;
        let begun = stopped.begin(&image.origin(form)?, loading, StartId::now(), SLICE_LIMIT)?;
        Ok(begun.problems)
    }

    /// Starts from files that are read now: what each start costs that finds no
    /// image in memory. With `keep` the next one does: while the node's kernel starts, what
    /// was read, and is still compressed, is put into memory as the image of this name, as
    /// after the paper's first start. That it cannot be kept is an error of a node that runs.
    pub fn start_from(&self, files: &Files, keep: Option<&str>, limit: Duration) -> Result<Stages> {
        let stopped = self.stopped()?;
        stopped.has_one_cpu()?;
        let mut loading = Loading::since(Instant::now());
        let read = files.read(&mut loading.parts)?;
        stopped.start(&read.origin(), loading, limit, |parts| {
            keep.map_or(Ok(()), |name| read.keep(name, parts).map(drop))
        })
    }

    /// Starts a node from a kernel's file and the files that belong into its initramfs. If an image
    /// of this content is resident, it starts from that; else what was read is kept as one. Returns
    /// the image's name as well. The node's own image stays what it is.
    pub fn start_kernel(
        &self,
        kernel: &Path,
        base: &Base,
        limit: Duration,
    ) -> Result<(Stages, String)> {
        if base.root.is_some() {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::node(&self.name),
                "a root is seen where it stays: kumiki image add makes an image with one",
            ));
        }
        let stopped = self.stopped()?;
        let mut loading = Loading::since(Instant::now());
        let ingredients =
            timed(&mut loading.parts.read_kernel_ms, || Ingredients::read(kernel, base))?;
        if let Some(name) = ingredients.resident()? {
            let image = Image::open(&name)?;
            return Ok((
                stopped.start(&image.origin(KernelForm::Vmlinux)?, loading, limit, |_| Ok(()))?,
                name,
            ));
        }
        if let Some(origin) = ingredients.as_shipped().filter(|_| stopped.has_one_cpu().is_ok()) {
            let stages = stopped.start(&origin, loading, limit, |parts| {
                ingredients.keep_as_shipped(parts).map(drop)
            })?;
            return Ok((stages, ingredients.name()));
        }
        // What several cpus are to be told is seen in an uncompressed kernel only.
        let name = ingredients.name();
        let prepared = timed(&mut loading.parts.plan_ms, || ingredients.prepare())?;
        let stages = stopped.start(&prepared.origin(), loading, limit, |parts| {
            timed(&mut parts.keep_ms, || prepared.keep(&name)).map(drop)
        })?;
        Ok((stages, name))
    }

    /// Fills the memory of a node that rests with zeros, but for its window, which says
    /// what it is. No start needs that.
    pub fn wipe(&self) -> Result<()> {
        let Stopped { device, entry, .. } = self.stopped()?;
        for (n, piece) in entry.pieces.iter().enumerate() {
            let window = if n == 0 { WINDOW_BYTES } else { 0 };
            let piece = Piece { bytes: piece.bytes - window, ..*piece };
            device.map(&[piece], Access::Write)?.zero(0, piece.bytes as usize);
        }
        Ok(())
    }

    /// The node stopped, with all that a start needs of it.
    fn stopped(&self) -> Result<Stopped> {
        let device = Device::own(Holding::Node, &self.name)?;
        self.at_rest(&device)?.must_rest("runs already", "")?;
        self.fetch_empty(&device)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        let (window, record) = record::window(&device, &entry, Access::Write)?;
        let record = record.ok_or_else(|| incomplete(&self.name))?;
        let entry = doze::with_cpus(&device, entry, &record)?;
        let record = resize::settled(&window, &entry, record)?;
        if entry.cpus.len() != record.cpus.len() {
            return Err(incomplete(&self.name));
        }
        let node = Node { name: self.name.clone() };
        Ok(Stopped { node, device, entry, window, record, taps: Vec::new() })
    }

    /// The node, of which one that has ended by itself is stopped first: it is of no more
    /// use to anybody. One that is lent is its starter's.
    fn at_rest(&self, device: &Device) -> Result<sysfs::Status> {
        let entry = sysfs::one(Holding::Node, &self.name)?;
        if !entry.runs()
            || !has_ended(entry.word)
            || record::window(device, &entry, Access::Read)?.0.is_lent()
        {
            return Ok(entry);
        }
        self.end(device)?;
        sysfs::one(Holding::Node, &self.name)
    }

    /// Asks the node to switch itself off, then stops its cpus, which is all
    /// that happens if `limit` is zero or the node does not answer.
    pub fn stop(&self, limit: Duration) -> Result<()> {
        let entry = sysfs::one(Holding::Node, &self.name)?;
        entry.must_run()?;
        if entry.word == abi::WORD_READY && !limit.is_zero() {
            // A node that does not do as asked is stopped all the same.
            let _ = Session::open_by_host(&self.name).map(|session| session.shut_down(limit));
        }
        self.end(&Device::own(Holding::Node, &self.name)?)
    }

    /// Stops its cpus. While another node starts it, that is waited for; should
    /// that one have ended meanwhile, nobody writes to this one's memory.
    fn end(&self, device: &Device) -> Result<()> {
        let begin = Instant::now();
        while !device.stop()? {
            let entry = sysfs::one(Holding::Node, &self.name)?;
            let (window, record) = record::window(device, &entry, Access::Write)?;
            let starter = record.and_then(|record| record.lent_to).unwrap_or_default();
            // One that says that it has ended may still have a cpu that writes.
            let goes_on = |node: &sysfs::Status| node.name == starter && node.runs();
            if !sysfs::all(Holding::Node)?.iter().any(goes_on) {
                window.settle();
            } else if begin.elapsed() >= STARTER_LIMIT {
                return Err(Error::refused(
                    ErrorKind::Busy,
                    Subject::node(&self.name),
                    format!(
                        "node {} is being started by node {starter}, which does not come to an end: \
                     kumiki node stop {starter}, then try again",
                        self.name
                    ),
                ));
            } else {
                thread::sleep(LOG_LOOK);
            }
        }
        Ok(())
    }

    /// Leaves starting it, now and again, to another node, which copies the
    /// image, or this snapshot of the node, and sends the interrupts itself:
    /// `kumiki node start` there. Ends with [`stop`](Self::stop).
    pub fn lend(&self, starter: &str, snapshot: Option<&str>) -> Result<()> {
        if starter == self.name {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::node(starter),
                format!("node {starter} cannot start itself"),
            ));
        }
        let session = Session::open_by_host(starter)?;
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = self.at_rest(&device)?;
        entry.must_rest("runs or is lent already", "")?;
        let mut record = record::window(&device, &entry, Access::Read)?
            .1
            .ok_or_else(|| incomplete(&self.name))?;
        if let Some(function) = record.pci.first() {
            return Err(Error::refused(
                ErrorKind::Unsupported,
                Subject::Function(function.to_string()),
                format!(
                    "node {} has PCI function {function}, which only its host can keep from writing \
                     when the node is stopped: it cannot be lent",
                    self.name
                ),
            ));
        }
        if let Some(name) = snapshot {
            let snapshot = Snapshot::open(name)?;
            snapshot.runs()?;
            snapshot.suits(&entry, &record)?;
            wake::is_of_its_image(&snapshot, &self.name, &record)?;
        }
        record.told = cpus_to_tell(&entry, &record)?;
        record.lent_to = Some(starter.to_owned());
        record.lent_snapshot = snapshot.map(str::to_owned);
        let image = Image::open(&record.image)?;
        let clocks = Clocks::of_host()?;
        // What would be refused there is refused here.
        load::plan(&entry, &record, &image.origin(KernelForm::Vmlinux)?, clocks, StartId::now())?;
        self.set_record(&device, &entry, &record)?;
        let image = sysfs::one(Holding::Image, &record.image)?.pieces;
        let snapshot = match snapshot {
            Some(name) => sysfs::one(Holding::Image, name)?.pieces,
            None => Vec::new(),
        };
        device.lend()?;
        let grant = json(&Grant { entry, record, image, snapshot, clocks });
        let handed = grant.and_then(|grant| session.hand_over(&Wish::Lend(grant)));
        if handed.is_err() {
            self.end(&device)?;
        }
        handed
    }

    /// Writes its record anew.
    pub(crate) fn set_record(
        &self,
        device: &Device,
        entry: &sysfs::Status,
        record: &Record,
    ) -> Result<()> {
        record::window(device, entry, Access::Write)?.0.set_record(&record.to_json()?);
        Ok(())
    }

    /// Gives cpus and memory back to the host, also of a node that has ended by itself.
    pub fn delete(self) -> Result<()> {
        let device = Device::own(Holding::Node, &self.name)?;
        let entry = self.at_rest(&device)?;
        entry.must_rest("runs", ", or delete it with --force")?;
        let cpus: Vec<u32> = entry.cpus.iter().map(|&(cpu, _)| cpu).collect();
        let mut kept = None;
        if !entry.pieces.is_empty() {
            let (window, record) = record::window(&device, &entry, Access::Write)?;
            kept = record.clone();
            // Making it may have been interrupted with a cpu off line and not claimed;
            // on line again before nothing tells of it any more.
            record.map_or(Ok(()), |record| bring_on_line(&record.cpus))?;
            // A node of the same name may get the same memory.
            window.set_record(b"");
        }
        give_back(&device, &cpus).inspect_err(|_| {
            // It is there still, if somebody uses it: as it was.
            if let Some(record) = &kept {
                let _ = self.set_record(&device, &entry, record);
            }
        })?;
        Stowed::of(&self.name)?.map_or(Ok(()), Stowed::forget)?;
        last_log::forget(&self.name);
        serve::forget(&self.name, kept.as_ref().map_or(&[], |record| &record.devices));
        kept.map_or(Ok(()), |record| functions::all_back(&record.pci))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if it was started and not stopped.
    pub fn is_running(&self) -> Result<bool> {
        Ok(sysfs::one(Holding::Node, &self.name)?.runs())
    }

    /// The kernel's log as far as the window holds it.
    pub fn log(&self) -> Result<Vec<u8>> {
        let device = Device::read(Holding::Node, &self.name)?;
        let entry = sysfs::one(Holding::Node, &self.name)?;
        if entry.state == "created" {
            return Ok(Vec::new());
        }
        Ok(record::window(&device, &entry, Access::Read)?.0.log())
    }

    /// The log of the run before this one, as far as its window held it, if there was one.
    pub fn last_log(&self) -> Result<Vec<u8>> {
        last_log::read(&self.name)
    }

    /// Passes the kernel's log on as it grows, until the node ends or is stopped.
    pub fn follow_log(&self, mut pass: impl FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
        let mut seen = 0;
        loop {
            // One look at a time, so that nobody who deletes the node waits for this.
            let device = Device::read(Holding::Node, &self.name)?;
            let entry = sysfs::one(Holding::Node, &self.name)?;
            if entry.state == "created" {
                return Ok(());
            }
            // Before its last lines are looked at: they are there then.
            let goes_on = entry.runs() && !has_ended(entry.word);
            let lines = record::window(&device, &entry, Access::Read)?.0.log_since(&mut seen);
            pass(&lines).map_err(|error| Error::os("passing the node's log on", error))?;
            if !goes_on {
                return Ok(());
            }
            drop(device);
            thread::sleep(LOG_LOOK);
        }
    }

    /// All nodes.
    pub fn list() -> Result<Vec<NodeInfo>> {
        listing::nodes()
    }
}

/// Memory, the record, then cpus: whoever finds the node half made finds in the
/// record which cpus may be off line because of it.
fn furnish(
    device: &Device,
    record: &Record,
    (memory, source): (&[u64], MemorySource),
    first_bytes: u64,
) -> Result<()> {
    // They are on line still.
    let near = match record.cpus.first() {
        _ if !record.numa.is_empty() => record.numa.clone(),
        Some(&cpu) => numa::nearest(cpu),
        None => numa::with_memory(),
    };
    let mut pieces = Vec::new();
    for &bytes in memory {
        let least = if pieces.is_empty() { first_bytes } else { 0 };
        let least = least.next_multiple_of(abi::PIECE_UNIT).max(abi::PIECE_UNIT);
        pieces.extend(reservation::pieces(device, bytes, least, source, &near)?);
    }
    let window = Window::new(device.map(&[window_of(&pieces[0])], Access::Write)?);
    let mut record = record.clone();
    record.pieces = Some(pieces.len());
    window.offer_all(&[]);
    window.set_record(&record.to_json()?);
    for &cpu in &record.cpus {
        cpus::set_online(cpu, false)?;
        device.cpu(cpu)?;
    }
    Ok(())
}

/// The module brings on line what it gives back; the rest is done here, also if
/// something else cannot go back.
fn give_back(device: &Device, cpus: &[u32]) -> Result<()> {
    let _telling = Telling;
    let released = device.release();
    let on_line = bring_on_line(cpus);
    released.and(on_line)
}

/// Brings those cpus that no node holds on line; each is tried, and the first failure told. A
/// record may name cpus that another node has got meanwhile.
fn bring_on_line(cpus: &[u32]) -> Result<()> {
    let mut failure = None;
    for cpu in unheld(cpus, &sysfs::all(Holding::Node)?) {
        if let Err(error) = cpus::set_online(cpu, true) {
            failure.get_or_insert(error);
        }
    }
    failure.map_or(Ok(()), Err)
}

fn unheld(cpus: &[u32], nodes: &[sysfs::Status]) -> Vec<u32> {
    let held: Vec<u32> = nodes.iter().flat_map(|node| &node.cpus).map(|&(cpu, _)| cpu).collect();
    cpus.iter().copied().filter(|cpu| !held.contains(cpu)).collect()
}

/// Refusal of a setting that cannot be.
fn impossible(name: &str, fault: &Fault) -> Error {
    Error::refused(
        ErrorKind::Invalid,
        Subject::Setting { node: name.to_owned(), key: fault.key.to_owned() },
        format!("node {name}: {}: {}", fault.key, fault.problem),
    )
}

/// The cpus that a start from an image tells the node's kernel of.
fn cpus_to_tell(entry: &sysfs::Status, record: &Record) -> Result<Vec<(u32, u32)>> {
    if record.elastic.is_some() { cpus::to_be_told(&entry.cpus) } else { Ok(entry.cpus.clone()) }
}

/// A node that is about to be started, and nobody else can start it.
struct Stopped {
    node: Node,
    device: Device,
    entry: sysfs::Status,
    window: Window,
    record: Record,
    /// TAPs of its cards that are open already, by the cards' slots.
    taps: Vec<(usize, File)>,
}

/// A node whose first cpu was started.
struct Launched {
    loaded: Loading,
    begin: Instant,
    /// Duration of the request to start.
    execute: Duration,
    /// Devices of it that are not served, and why.
    problems: Vec<String>,
}

impl Stopped {
    /// Memory with the log of a kernel that began and has not handed it over.
    fn early_memory(&self) -> Option<Memory> {
        let began = self.window.stamp(abi::STAMP_TRAMPOLINE) != 0;
        let is_silent = self.window.word() == abi::WORD_SILENT;
        let memory = self.device.map(&self.entry.pieces[..1], Access::Read);
        memory.ok().filter(|_| began && is_silent)
    }

    fn has_one_cpu(&self) -> Result<()> {
        if self.record.cpus.len() == 1 {
            return Ok(());
        }
        Err(Error::refused(
            ErrorKind::Unsupported,
            Subject::node(&self.node.name),
            format!(
                "node {} has several cpus: what its kernel wants to be told of them is seen in an \
             image only; kumiki node start {0}",
                self.node.name
            ),
        ))
    }

    /// Loads, and starts the first cpu and what serves its devices.
    fn begin(
        &self,
        origin: &Origin<'_>,
        mut loading: Loading,
        id: StartId,
        limit: Duration,
    ) -> Result<Launched> {
        let name = &self.node.name;
        let (with, added) = self.record.parts(&self.entry.pieces);
        let have: Vec<u64> = with.iter().map(|piece| piece.bytes).collect();
        // It may be another image than the one that the node was made for.
        origin
            .needs()
            .check(&self.record.image, &have)
            .map_err(|fault| impossible(name, &fault))?;
        // They may have been given back by hand.
        let mut record = self.record.clone();
        record.told = cpus_to_tell(&self.entry, &record)?;
        record.pci.iter().try_for_each(|one| {
            let is_confined = record.confined.contains(one);
            let dma = if is_confined { Dma::Confined } else { Dma::Unconfined };
            self.device.pci(*one, one.numbers(), dma)
        })?;
        let parts = &mut loading.parts;
        let plan = timed(&mut parts.plan_ms, || {
            let plan = load::plan(&self.entry, &record, origin, Clocks::of_host()?, id);
            plan.map_err(|error| error.about(|| Subject::node(name)))
        })?;
        load::load(
            |piece| self.device.map_within(&[piece], Access::Write, limit),
            &self.entry,
            &plan,
            origin,
            parts,
        )?;
        self.window.offer_all(added);
        self.launch(loading, record, None)
    }

    /// Starts the first cpu of a node whose memory is ready, and what serves its devices. `from`
    /// is the snapshot that is in that memory, if it is one.
    fn launch(&self, loading: Loading, mut record: Record, from: Option<&str>) -> Result<Launched> {
        record.started_from = from.map(str::to_owned);
        record.idle = false;
        if record != self.record {
            self.window.set_record(&record.to_json()?);
        }
        // The start empties the window: what the last run said is kept, most of all of one that crashed.
        if self.entry.state != "created" {
            last_log::keep(&self.node.name, &self.window);
        }
        let loaded = loading.done();
        let begin = Instant::now();
        self.device.start()?;
        let execute = begin.elapsed();
        kumiki_sys::event!(node = %self.node.name, ?execute, "its first cpu runs");
        let problems = if self.record.devices.is_empty() {
            Vec::new()
        } else {
            serve::spawn(&self.node.name, &self.taps)
                .unwrap_or_else(|error| vec![error.to_string()])
        };
        Ok(Launched { loaded, begin, execute, problems })
    }

    /// Does something else `meanwhile`, as soon as the node's kernel has begun.
    fn start(
        &self,
        origin: &Origin<'_>,
        loading: Loading,
        limit: Duration,
        meanwhile: impl FnOnce(&mut LoadParts) -> Result<()>,
    ) -> Result<Stages> {
        let id = StartId::now();
        let mut begun = self.begin(origin, loading, id, limit)?;
        let kept = meanwhile(&mut begun.loaded.parts);
        let stages = self.until_ready(begun, id, limit)?;
        kept.map(|()| stages).map_err(|error| {
            let text = format!(
                "node {} is ready, and what it was started from could not be kept: {error}",
                self.node.name
            );
            error.reworded(text)
        })
    }

    /// Waits until the node's agent answers.
    fn until_ready(&self, begun: Launched, id: StartId, limit: Duration) -> Result<Stages> {
        let (window, name) = (&self.window, &self.node.name);
        let Launched { loaded, begin, execute, problems } = begun;
        let (mut early, mut looked) = (Early::of(id), begin);
        while window.word() != abi::WORD_READY {
            if has_ended(window.word()) || window.wants_reset() || begin.elapsed() >= limit {
                let log = self.early_memory().map(|memory| early.log(&memory));
                let log = log.unwrap_or_default();
                return Err(silent(name, window, &log, "did not become ready", limit));
            }
            if looked.elapsed() >= EARLY_LOOK {
                looked = Instant::now();
                let memory = self.early_memory();
                if let Some(log) = memory.and_then(|memory| early.panic(&memory)) {
                    let why = log.iter().find_map(|line| line.split_once(PANIC));
                    window.say_panic(why.map_or("", |(_, why)| why));
                    return Err(panicked(name, window, &log));
                }
            }
            doorbell::wait(self.device.bell(), &[], LOOK_AGAIN)
                .map_err(|error| Error::os("waiting for a doorbell", error))?;
        }
        kumiki_sys::event!(node = %name, after = ?begin.elapsed(), "its agent answers");
        Ok(Stages { problems, ..Stages::of(loaded, execute, begin.elapsed(), window) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_another_node_has_got_are_not_brought_on_line() {
        let node = |cpus: &[(u32, u32)]| sysfs::Status {
            name: "n2".into(),
            state: "running".into(),
            owner: 0,
            pieces: vec![],
            cpus: cpus.to_vec(),
            slice: 0,
            word: 0,
        };
        assert_eq!(unheld(&[3, 2, 1], &[node(&[(3, 0)]), node(&[(0, 1), (4, 2)])]), [2, 1]);
        assert_eq!(unheld(&[3], &[]), [3]);
    }
}
