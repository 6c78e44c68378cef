//! In a node: another node, which the host has lent to this one, and its start
//! from here. The image, or a snapshot, and the other's memory are read and written where
//! they are; the host takes no part.
//!
//! ```text
//!   NOT_LENT --host: LEND--> LENT --here--> STARTING --here--> LENT --host: STOP--> NOT_LENT
//! ```
//!
//! Whoever starts holds STARTING from before the first write to the other's
//! memory until after the SIPI, and the host waits for that before it takes the
//! node back and gives its memory away.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_boot::Piece;
use kumiki_node_agent::delegated::{FOLDER, path};
use kumiki_node_devices::grant::Grant;
use kumiki_node_devices::record::{Record, window_of};
use kumiki_node_image::image::{Image, KernelForm};
use kumiki_node_image::listing::{self, NodeInfo};
use kumiki_node_image::load;
use kumiki_node_image::snapshot::Snapshot;
use kumiki_node_image::snapshot::lead_in::lead_in;
use kumiki_node_wire::access::Access;
use kumiki_node_wire::early::StartId;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::sysfs::{RUNNING, Status};
use kumiki_node_wire::module::{abi, doorbell, requests};
use kumiki_node_wire::silence::silent;
use kumiki_node_wire::stages::{LoadParts, Loading, Stages, timed};
use kumiki_node_wire::window::{Window, has_ended, meaning};
use rustix::fs::{FlockOperation, flock};

use crate::{Error, ErrorKind, Result, Subject};

/// Physical memory. What is not this kernel's own can be mapped, as it is for it
/// what a device's would be.
const MEMORY: &str = "/dev/mem";

/// Interval at which a node that was started from here is looked at: its doorbell rings at the
/// host.
const LOOK: Duration = Duration::from_millis(2);

/// Treatment of a node that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Running {
    Refuse,
    /// Ended without a word.
    End,
}

/// A node that this one may start.
pub struct Delegated {
    grant: Grant,
    /// Held locked by who starts it.
    file: File,
    memory: File,
    window: Window,
}

impl std::fmt::Debug for Delegated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delegated").field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl Delegated {
    /// Names of all that the host has sent; it may have taken some back.
    fn names() -> Result<Vec<String>> {
        let Ok(entries) = fs::read_dir(FOLDER) else { return Ok(Vec::new()) };
        let name = |entry: std::io::Result<fs::DirEntry>| {
            Ok(entry?.file_name().to_string_lossy().into_owned())
        };
        let mut names: Vec<_> = entries
            .map(name)
            .collect::<Result<_, std::io::Error>>()
            .map_err(|error| Error::file(FOLDER, error))?;
        names.sort();
        Ok(names)
    }

    /// One by its name.
    pub fn find(name: &str) -> Result<Self> {
        let gone = || not_lent(name);
        if !Delegated::names()?.iter().any(|known| known == name) {
            return Err(gone());
        }
        let path = path(name);
        let file = File::open(&path).map_err(|error| Error::file(&path, error))?;
        let grant: Grant = serde_json::from_reader(&file).map_err(|error| {
            Error::refused(
                ErrorKind::Damaged,
                Subject::File(path.clone()),
                format!("{}: {error}", path.display()),
            )
        })?;
        let memory = OpenOptions::new().read(true).write(true).open(MEMORY);
        let memory = memory.map_err(|error| Error::file(MEMORY, error))?;
        let first = grant.entry.pieces.first().ok_or_else(gone)?;
        let window = Window::new(Memory::map(memory.as_fd(), &[window_of(first)], Access::Write)?);
        let lent = Delegated { grant, file, memory, window };
        if lent.is_granted() { Ok(lent) } else { Err(gone()) }
    }

    /// Checks that the grant holds still: its memory may be somebody else's by now, and the node
    /// lent to another one.
    fn is_granted(&self) -> bool {
        self.window.is_one()
            && self.window.is_lent()
            && serde_json::from_slice(&self.window.record())
                .is_ok_and(|record: Record| record == self.grant.record)
    }

    /// All that this node may start now, as the host lists them.
    pub fn list() -> Result<Vec<NodeInfo>> {
        let all = Delegated::names()?.into_iter().filter_map(|name| match Delegated::find(&name) {
            Ok(lent) => Some(Ok(lent.info())),
            // The host has taken it back since.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => Some(Err(error)),
        });
        all.collect()
    }

    fn info(&self) -> NodeInfo {
        let Grant { entry, record, .. } = &self.grant;
        // To the host it runs, as long as it is lent.
        let (state, word) = (RUNNING.into(), self.window.word());
        let entry = Status { state, word, owner: 0, ..entry.clone() };
        let message = (meaning(entry.word) == "panic").then(|| self.window.message());
        listing::described(&entry, Some(record), true, message)
    }

    /// Copies the image into its memory, starts its first cpu and waits until
    /// its agent answers. One that runs is refused.
    pub fn start(&self, form: KernelForm, limit: Duration) -> Result<Stages> {
        self.begin(&StartFrom::Image(form), Running::Refuse, limit)
    }

    /// Starts as [`start`](Self::start), also one that runs, which ends without a word.
    pub fn restart(&self, form: KernelForm, limit: Duration) -> Result<Stages> {
        self.begin(&StartFrom::Image(form), Running::End, limit)
    }

    /// Copies the snapshot's pages into its memory, has its kernel go on there and waits until
    /// its agent answers. The host has lent the node with this snapshot. One that runs is refused.
    pub fn start_snapshot(&self, name: &str, limit: Duration) -> Result<Stages> {
        self.begin(&self.snapshot(name)?, Running::Refuse, limit)
    }

    /// Starts as [`start_snapshot`](Self::start_snapshot), also one that runs, which ends without
    /// a word.
    pub fn restart_snapshot(&self, name: &str, limit: Duration) -> Result<Stages> {
        self.begin(&self.snapshot(name)?, Running::End, limit)
    }

    fn snapshot(&self, name: &str) -> Result<StartFrom> {
        let Grant { entry, record, snapshot, .. } = &self.grant;
        if record.lent_snapshot.as_deref() != Some(name) {
            let with = record.lent_snapshot.as_deref();
            return Err(Error::refused(
                ErrorKind::NotFound,
                Subject::node(&entry.name),
                format!(
                    "node {node} was lent {}: kumiki node delegate {node} NODE --from {name} on the \
                     host, NODE being this one",
                    with.map_or("without a snapshot".into(), |with| format!(
                        "with snapshot {with}"
                    )),
                    node = entry.name
                ),
            ));
        }
        let memory = Memory::map(self.memory.as_fd(), snapshot, Access::Read)?;
        let snapshot = Snapshot::of(name, memory, None)?;
        snapshot.suits(entry, record)?;
        Ok(StartFrom::Snapshot(Box::new(snapshot)))
    }

    fn begin(&self, from: &StartFrom, running: Running, limit: Duration) -> Result<Stages> {
        let name = &self.grant.entry.name;
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::refused(
                ErrorKind::Busy,
                Subject::node(name),
                format!("node {name} is being started by another process here"),
            )
        })?;
        // With the lock, what this node has begun was begun by a process that has died.
        let was = self.window.begin();
        // Again: until it has begun the host may lend it to another one.
        if was == abi::NOT_LENT || !self.is_granted() {
            if was == abi::LENT {
                self.window.settle();
            }
            return Err(not_lent(name));
        }
        let started = self.load_and_start(from, running);
        self.window.settle();
        let (loaded, begin, execute) = started?;
        while self.window.word() != abi::WORD_READY {
            let ended = has_ended(self.window.word()) || self.window.wants_reset();
            if ended || begin.elapsed() >= limit {
                return Err(silent(name, &self.window, &[], "did not become ready", limit));
            }
            thread::sleep(LOOK);
        }
        Ok(Stages::of(loaded, execute, begin.elapsed(), &self.window))
    }

    /// The load phase, when the first interrupt was sent, and how long that took.
    fn load_and_start(
        &self,
        from: &StartFrom,
        running: Running,
    ) -> Result<(Loading, Instant, Duration)> {
        let entry = &self.grant.entry;
        let word = self.window.word();
        let runs = word != abi::WORD_SILENT && !has_ended(word);
        if runs && running == Running::Refuse {
            return Err(Error::refused(
                ErrorKind::Running,
                Subject::node(&entry.name),
                format!("node {} runs already: kumiki node restart {0}", entry.name),
            ));
        }
        let guest = OpenOptions::new().read(true).write(true).open(abi::GUEST_DEVICE);
        let guest = guest.map_err(|error| Error::file(abi::GUEST_DEVICE, error))?;
        let window = window_of(&entry.pieces[0]).address;
        let failed =
            |error| Error::os(format!("interrupting the cpus of node {}", entry.name), error);
        // Before its memory is written: it may have halted with some of its cpus at work.
        requests::guest_init(&guest, window).map_err(failed)?;
        if runs {
            // Who talks to it would wait for ever, and who looks would take it for ready.
            self.window.say(abi::WORD_STOPPED);
            doorbell::ring(&guest).map_err(failed)?;
        }
        let mut loading = Loading::since(Instant::now());
        match from {
            StartFrom::Image(form) => self.load_image(*form, &mut loading.parts)?,
            StartFrom::Snapshot(snapshot) => self.load_snapshot(snapshot, &mut loading.parts)?,
        }
        let loaded = loading.done();
        self.window.renew();
        let begin = Instant::now();
        requests::guest_start(&guest, window).map_err(failed)?;
        Ok((loaded, begin, begin.elapsed()))
    }

    fn map(&self, pieces: &[Piece], access: Access) -> Result<Memory> {
        Memory::map(self.memory.as_fd(), pieces, access)
    }

    fn load_image(&self, form: KernelForm, parts: &mut LoadParts) -> Result<()> {
        let Grant { entry, record, image, clocks, .. } = &self.grant;
        let image = Image::of(&record.image, self.map(image, Access::Read)?, image)?;
        let origin = image.origin(form)?;
        let plan = timed(&mut parts.plan_ms, || {
            load::plan(entry, record, &origin, *clocks, StartId::now())
        })?;
        self.window.offer_all(record.parts(&entry.pieces).1);
        load::load(|piece| self.map(&[piece], Access::Write), entry, &plan, &origin, parts)
    }

    fn load_snapshot(&self, snapshot: &Snapshot, parts: &mut LoadParts) -> Result<()> {
        let (places, header) = (snapshot.places(), &snapshot.header);
        let Grant { entry, record, .. } = &self.grant;
        self.window.all_used(record.parts(&entry.pieces).1);
        let memory = self.map(places.pieces(), Access::Write)?;
        timed(&mut parts.copy_kernel_ms, || snapshot.load(&memory))?;
        let kernel = (header.wake, header.tables);
        timed(&mut parts.plan_ms, || {
            lead_in(&self.grant.entry, &self.window, (&memory, &places), kernel)
        })
    }
}

/// Contents of its memory at a start.
enum StartFrom {
    Image(KernelForm),
    Snapshot(Box<Snapshot>),
}

fn not_lent(name: &str) -> Error {
    Error::refused(
        ErrorKind::NotFound,
        Subject::node(name),
        format!(
            "node {name} is not lent to this node: kumiki node delegate {name} NODE on the host, NODE \
         being this one"
        ),
    )
}

#[cfg(test)]
mod tests {
    use kumiki_node_devices::clocks::Clocks;

    use super::*;
    use kumiki_node_image::listing::NodeState;

    /// A node of a file, as the host has lent it, and the grant.
    fn lent_to(starter: &str) -> Delegated {
        let record: Record = serde_json::from_str(&record_of(starter)).unwrap();
        let entry = Status {
            name: "n2".into(),
            state: "running".into(),
            owner: 0,
            pieces: vec![Piece { address: 1 << 30, bytes: 256 << 20 }],
            cpus: vec![],
            slice: 0,
            word: 0,
        };
        let window = Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES));
        window.make_one();
        window.set_record(record_of(starter).as_bytes());
        window.settle();
        let file = || tempfile::tempfile().unwrap();
        let clocks = Clocks { tsc_khz: 1, pm_timer: None };
        let grant = Grant { entry, record, image: vec![], snapshot: vec![], clocks };
        Delegated { grant, file: file(), memory: file(), window }
    }

    fn record_of(starter: &str) -> String {
        format!(
            r#"{{"version":1,"name":"n2","image":"deb","cpus":[2],"command_line":"","lent_to":"{starter}"}}"#
        )
    }

    #[test]
    fn a_lent_node_is_listed_as_the_host_lists_it() {
        let info = lent_to("n1").info();
        assert_eq!(
            (&*info.name, info.state, info.image.as_deref()),
            ("n2", NodeState::Lent, Some("deb"))
        );
        assert_eq!((info.lent_to.as_deref(), info.message), (Some("n1"), None));
        assert_eq!(
            (info.bytes, &info.memory[..]),
            (256 << 20, &["0x40000000-0x50000000".to_owned()][..])
        );
    }

    #[test]
    fn a_snapshot_that_it_was_not_lent_with_is_refused_by_name() {
        let start = |lent: &Delegated| lent.start_snapshot("warm", Duration::ZERO);
        let said = start(&lent_to("n1")).unwrap_err().to_string();
        assert!(said.contains("n2 was lent without a snapshot: kumiki node delegate n2"), "{said}");
        let mut lent = lent_to("n1");
        lent.grant.record.lent_snapshot = Some("cold".into());
        let said = start(&lent).unwrap_err().to_string();
        assert!(said.contains("with snapshot cold") && said.contains("--from warm"), "{said}");
    }

    #[test]
    fn a_grant_ends_when_the_node_is_lent_to_another_one() {
        let lent = lent_to("n1");
        assert!(lent.is_granted());
        lent.window.set_record(record_of("n3").as_bytes());
        assert!(!lent.is_granted());
        let start = || lent.restart(KernelForm::Vmlinux, Duration::ZERO).unwrap_err().to_string();
        assert!(start().contains("not lent to this node"));
        // Left as it was, whether the other one starts it or not.
        assert_eq!(lent.window.begin(), abi::LENT);
        assert!(start().contains("not lent to this node"));
        assert_eq!(lent.window.begin(), abi::STARTING);
    }
}
