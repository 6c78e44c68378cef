//! A descriptor of the module's device, attached to one node or image.

use std::fmt::Display;
use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use kumiki_boot::Piece;
use rustix::io::Errno;

use crate::access::Access;
use crate::memory::Memory;
use crate::memory::blocks::{Lock, Notes};
use crate::module::holding::{Holding, padded};
use crate::module::{abi, doorbell, requests, sysfs};
use crate::{Error, ErrorKind, Result, Subject};

/// Time that a release waits for others to leave.
const LEAVING_LIMIT: Duration = Duration::from_secs(5);

/// Time for which room below 1 MiB that is shared is waited for, where nobody says how long, and
/// interval at which it is looked for.
pub const SLICE_LIMIT: Duration = Duration::from_secs(60);
const SLICE_LOOK: Duration = Duration::from_millis(10);

/// The host must go on: so much is not given away.
pub const HOST_KEEPS_BYTES: u64 = 64 << 20;

/// Room below 1 MiB in which a node's cpus begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// The node's alone.
    Own,
    /// Shared with others: nodes that have one cpu for ever.
    Shared,
}

/// Side that talks with a node: when programs have all channels, one is left for its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A program that somebody runs there.
    Program,
    /// The host, for what it has to know of the node.
    Host,
}

/// Reach of a PCI function's DMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dma {
    /// The memory that the node has when it takes the function, and nothing else.
    Confined,
    /// All memory of the machine.
    Unconfined,
}

#[derive(Debug)]
pub struct Device {
    file: File,
    kind: Holding,
    name: String,
}

impl Device {
    /// Makes a node or an image; this descriptor owns it. Returns its low slice.
    pub fn create(kind: Holding, name: &str) -> Result<(Self, u64)> {
        Self::created(kind, name, Slice::Own)
    }

    /// Makes a node.
    pub fn create_node(name: &str, slice: Slice) -> Result<Self> {
        Self::created(Holding::Node, name, slice).map(|(device, _)| device)
    }

    fn created(kind: Holding, name: &str, slice: Slice) -> Result<(Self, u64)> {
        let mut wanted = abi::Create {
            name: padded(kind, name)?,
            kind: kind.number(),
            shares: u32::from(slice == Slice::Shared),
            ..Default::default()
        };
        let file = requests::open(Access::Write)?;
        let lock = Lock::take()?;
        // Memory that is still off line for nobody.
        lock.sweep();
        requests::create(&file, &mut wanted).map_err(|error| not_created(kind, name, error))?;
        let device = Device { file, kind, name: name.to_owned() };
        Ok((device, wanted.slice))
    }

    /// Takes over what exists and nobody owns now.
    pub fn own(kind: Holding, name: &str) -> Result<Self> {
        Self::attach(kind, name, abi::OWN).map(|(device, _)| device)
    }

    /// Opens for reading.
    pub fn read(kind: Holding, name: &str) -> Result<Self> {
        Self::attach(kind, name, abi::READ).map(|(device, _)| device)
    }

    /// Opens for a talk with a running node; returns its channel.
    pub fn talk(name: &str, asker: Asker) -> Result<(Self, usize)> {
        let any = u32::from(asker == Asker::Host);
        let (device, channel) = Self::attach_with(Holding::Node, name, abi::TALK, any)?;
        Ok((device, channel as usize))
    }

    /// Opens the device to serve a running node's devices.
    pub fn serve(name: &str) -> Result<Self> {
        Self::attach(Holding::Node, name, abi::SERVE).map(|(device, _)| device)
    }

    fn attach(kind: Holding, name: &str, mode: u32) -> Result<(Self, u32)> {
        Self::attach_with(kind, name, mode, 0)
    }

    fn attach_with(kind: Holding, name: &str, mode: u32, channel: u32) -> Result<(Self, u32)> {
        let mut wanted = abi::Attach {
            name: padded(kind, name)?,
            kind: kind.number(),
            mode,
            channel,
            ..Default::default()
        };
        // What may be read only must not even be open for writing.
        let access = if mode == abi::READ { Access::Read } else { Access::Write };
        let file = requests::open(access)?;
        requests::attach(&file, &mut wanted)
            .map_err(|error| not_attached(kind, name, mode, error))?;
        Ok((Device { file, kind, name: name.to_owned() }, wanted.channel))
    }

    /// One more piece; `None` if so much is not there in one.
    pub fn memory(&self, bytes: u64, numa_node: u32) -> Result<Option<Piece>> {
        self.memory_aligned(bytes, abi::PIECE_UNIT, numa_node)
    }

    /// One more piece, whose address is a multiple of this; `None` if none is free.
    pub fn memory_aligned(
        &self,
        bytes: u64,
        alignment: u64,
        numa_node: u32,
    ) -> Result<Option<Piece>> {
        let aligned = u32::try_from(alignment / abi::PIECE_UNIT).unwrap_or(u32::MAX);
        let mut wanted = abi::Memory { bytes, numa_node, aligned, ..Default::default() };
        match requests::memory(&self.file, &mut wanted) {
            Ok(()) => Ok(Some(Piece { address: wanted.address, bytes })),
            Err(Errno::NOMEM) => Ok(None),
            Err(error) => Err(self.no_memory("taking", error)),
        }
    }

    /// One more piece, of memory that this machine's kernel does not use.
    pub fn claim(&self, piece: &Piece) -> Result<()> {
        let mut wanted =
            abi::Memory { bytes: piece.bytes, numa_node: 0, aligned: 0, address: piece.address };
        requests::memory(&self.file, &mut wanted).map_err(|error| match error {
            Errno::BUSY => Error::refused(ErrorKind::NoMemory, Subject::Address(piece.address), format!(
                "memory at {:#x}, {} bytes: this machine's kernel or another node uses some of it, \
                 or it is no RAM",
                piece.address, piece.bytes
            )),
            error => self.no_memory("claiming", error),
        })
    }

    fn no_memory(&self, doing: &str, error: Errno) -> Error {
        match error {
            Errno::NOSPC => Error::refused(
                ErrorKind::Full, Subject::limit("pieces of memory", abi::PIECES + 1, abi::PIECES),
                format!(
                    "{} has {} pieces of memory already, which is the most: ask for less, or for \
                 fewer and larger pieces",
                    self.title(),
                    abi::PIECES
                ),
            ),
            Errno::NOPKG => Error::refused(
                ErrorKind::Unsupported, Subject::Module("osnode-claim".into()),
                format!(
                    "{}: memory that this machine's kernel does not use is given by the module \
                     osnode-claim, which is not loaded: modprobe osnode-claim",
                    self.title()
                ),
            ),
            Errno::NODEV => self.refused(
                ErrorKind::NoMemory,
                format!(
                    "{}: a NUMA node that this machine's kernel names is not on line: try again, or \
                 choose other cpus",
                    self.title()
                ),
            ),
            Errno::BUSY => self.refused(
                ErrorKind::Busy,
                format!(
                    "{} runs, and its agent does not answer this machine (it starts, hangs, has \
                     ended, or another node starts it): see kumiki node ls",
                    self.title()
                ),
            ),
            error => self.failed(&format!("{doing} memory for"), error),
        }
    }

    /// Gives one piece but the first back to the host; whether its kernel has let go of it, if the
    /// node runs.
    pub fn piece_back(&self, piece: &Piece) -> Result<bool> {
        let mut wanted = abi::Memory { address: piece.address, ..Default::default() };
        match requests::piece_back(&self.file, &mut wanted) {
            Ok(()) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(error) => {
                let which = format!("giving back the memory at {:#x} of", piece.address);
                Err(self.failed(&which, error))
            }
        }
    }

    /// Memory for lines, a part of the window.
    pub fn lanes(&self, address: u64, bytes: usize) -> Result<kumiki_sys::shm::Window> {
        kumiki_sys::shm::Window::map(self.file.as_fd(), address, bytes).map_err(|error| {
            self.refused(ErrorKind::Damaged, format!("{}: memory for lines: {error}", self.title()))
        })
    }

    pub fn notes(&self) -> Notes {
        Notes::of(self.kind, &self.name)
    }

    /// One more cpu, which must be offline; returns its APIC id.
    pub fn cpu(&self, cpu: u32) -> Result<u32> {
        let mut wanted = abi::Cpu { cpu, apic_id: 0 };
        requests::cpu(&self.file, &mut wanted).map_err(|error| self.no_cpu(cpu, error))?;
        Ok(wanted.apic_id)
    }

    fn no_cpu(&self, cpu: u32, error: Errno) -> Error {
        match error {
            Errno::BUSY => Error::refused(
                ErrorKind::NoCpu,
                Subject::Cpu(cpu),
                format!(
                    "cpu {cpu} is in use, by the host or by another node, or {} runs and its agent \
                     does not answer: see kumiki node ls, or choose another",
                    self.title()
                ),
            ),
            Errno::NOSPC => Error::refused(
                ErrorKind::NoCpu,
                Subject::Cpu(cpu),
                format!(
                    "{} gets no cpu {cpu}: it has {} cpus, which is the most; a node made with one \
                     and without --max-cpus keeps one, as it shares its room below 1 MiB",
                    self.title(),
                    abi::CPUS
                ),
            ),
            Errno::OPNOTSUPP => Error::refused(
                ErrorKind::NoCpu,
                Subject::Cpu(cpu),
                format!("cpu {cpu} has an APIC id above {}: choose another", abi::APIC_IDS - 1),
            ),
            error => self.failed(&format!("taking cpu {cpu} for"), error),
        }
    }

    /// Gives one cpu back to the host, which has it on line then; whether its kernel has let go of
    /// it, if the node runs.
    pub fn cpu_back(&self, cpu: u32) -> Result<bool> {
        match requests::cpu_back(&self.file, &mut abi::Cpu { cpu, apic_id: 0 }) {
            Ok(()) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(self.failed(&format!("giving back cpu {cpu} of"), error)),
        }
    }

    /// Makes this one more name for a sealed image.
    pub fn link(&self, image: &str) -> Result<()> {
        let mut wanted = abi::Link { name: padded(Holding::Image, image)? };
        requests::link(&self.file, &mut wanted)
            .map_err(|error| self.failed("naming one more", error))
    }

    /// Has this node own a PCI function that is bound to the module's driver, by its segment and
    /// number there.
    pub fn pci(&self, function: impl Display, at: (u32, u32), dma: Dma) -> Result<()> {
        let confine = u32::from(dma == Dma::Confined);
        let how = abi::Pci { confine, ..Default::default() };
        self.pci_is(function, at, how)
    }

    /// Has it own one no longer.
    pub fn pci_back(&self, function: impl Display, at: (u32, u32)) -> Result<()> {
        self.pci_is(function, at, abi::Pci { give_back: 1, ..Default::default() })
    }

    fn pci_is(
        &self,
        function: impl Display,
        (segment, number): (u32, u32),
        how: abi::Pci,
    ) -> Result<()> {
        let mut wanted = abi::Pci { segment, function: number, ..how };
        requests::pci(&self.file, &mut wanted).map_err(|error| {
            let (kind, why) = match error {
                Errno::OPNOTSUPP => (
                    ErrorKind::Unsupported,
                    "is behind no IOMMU that this machine's kernel uses (intel_iommu=on, \
                     amd_iommu=on): what it writes to memory cannot be confined",
                ),
                Errno::PERM | Errno::INVAL => (
                    ErrorKind::Unsupported,
                    "is not confined by this machine's IOMMU, whose words are in the kernel's log",
                ),
                Errno::NOPKG => (
                    ErrorKind::Unsupported,
                    "needs the module osnode-iommu to be confined: modprobe osnode-iommu",
                ),
                Errno::NODEV => (
                    ErrorKind::NotFound,
                    "is not bound to osnode-pci.ko: it was given back or has gone, or the module",
                ),
                Errno::BUSY => (ErrorKind::Busy, "is another node's, or the node runs"),
                Errno::NOTTY => (ErrorKind::Unsupported, "needs the osnode.ko of this kumiki"),
                error => return self.failed(&format!("giving PCI function {function} to"), error),
            };
            Error::refused(
                kind,
                Subject::Function(function.to_string()),
                format!("{}: PCI function {function} {why}", self.title()),
            )
        })
    }

    /// Gives the cpus of a node that does not run back to the host, which has them on line then.
    pub fn cpus_back(&self) -> Result<()> {
        requests::cpus_back(&self.file)
            .map_err(|error| self.failed("giving back the cpus of", error))
    }

    /// Gives the memory of a node that does not run back to the host, and no more of it.
    pub fn memory_back(&self) -> Result<()> {
        let begin = Instant::now();
        let lock = loop {
            let lock = Lock::take()?;
            match requests::memory_back(&self.file) {
                // Who serves it, or looks on, needs a moment.
                Err(Errno::BUSY) if begin.elapsed() < LEAVING_LIMIT => {
                    drop(lock);
                    std::thread::sleep(LEAVING_LIMIT / 100);
                }
                outcome => {
                    outcome.map_err(|error| self.failed("giving back the memory of", error))?;
                    break lock;
                }
            }
        };
        self.notes().bring_back(&lock)
    }

    pub fn seal(&self) -> Result<()> {
        requests::seal(&self.file).map_err(|error| self.failed("sealing", error))
    }

    pub fn start(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            match requests::start(&self.file) {
                // Who served its devices sees that it has ended, and goes.
                Err(Errno::BUSY) if begin.elapsed() < LEAVING_LIMIT => {
                    std::thread::sleep(LEAVING_LIMIT / 100);
                }
                Err(Errno::BUSY) => {
                    return Err(self.refused(
                        ErrorKind::Busy,
                        format!(
                            "the devices of {}'s last run are still served: end kumiki node serve {}, \
                         and virtiofsd if it has a folder",
                            self.title(),
                            self.name
                        ),
                    ));
                }
                outcome => return outcome.map_err(|error| self.not_arrived("starting", error)),
            }
        }
    }

    /// Leaves the start to another node.
    pub fn lend(&self) -> Result<()> {
        requests::lend(&self.file).map_err(|error| self.failed("lending", error))
    }

    /// Stops it; false if another node starts it.
    pub fn stop(&self) -> Result<bool> {
        match requests::stop(&self.file) {
            Ok(()) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(error) => Err(self.not_arrived("stopping", error)),
        }
    }

    /// An interrupt that its cpu is not seen to take.
    fn not_arrived(&self, doing: &str, error: Errno) -> Error {
        if error != Errno::IO {
            return self.failed(doing, error);
        }
        let (title, name) = (self.title(), &self.name);
        self.refused(
            ErrorKind::Lost,
            format!(
                "{doing} {title}: an interrupt to a cpu of it was not seen to arrive within 1 ms, so \
             that cpu may run or not, and is kept from the host: kumiki node kill {name} tries \
             to stop it again"
            ),
        )
    }

    /// Gives everything back, once those who still look at it have gone: clients
    /// of a node that was stopped need a moment to see it.
    pub fn release(&self) -> Result<()> {
        self.release_if(|| Ok(()))
    }

    /// Releases it, unless it `may` not go, which is asked anew after each wait.
    pub fn release_if(&self, may: impl Fn() -> Result<()>) -> Result<()> {
        let begin = Instant::now();
        loop {
            may()?;
            let lock = Lock::take()?;
            match requests::release(&self.file) {
                Err(Errno::BUSY) if begin.elapsed() < LEAVING_LIMIT => {
                    drop(lock);
                    std::thread::sleep(LEAVING_LIMIT / 100);
                }
                Err(Errno::BUSY) => {
                    return Err(self.refused(
                        ErrorKind::Busy,
                        format!(
                            "{} {} is in use: stop it first, and end what reads it",
                            self.kind.noun(),
                            self.name
                        ),
                    ));
                }
                outcome => {
                    outcome.map_err(|error| self.failed("releasing", error))?;
                    let back = self.notes().bring_back(&lock);
                    lock.sweep();
                    return back;
                }
            }
        }
    }

    pub fn ring(&self) -> Result<()> {
        doorbell::ring(&self.file).map_err(|error| self.failed("ringing", error))
    }

    /// Checks that, with a slice that others share, it waits for the start of another one.
    pub fn map(&self, pieces: &[Piece], access: Access) -> Result<Memory> {
        self.map_within(pieces, access, SLICE_LIMIT)
    }

    /// Maps these as [`map`](Self::map) does, and waits so long.
    pub fn map_within(&self, pieces: &[Piece], access: Access, limit: Duration) -> Result<Memory> {
        let begin = Instant::now();
        loop {
            match Memory::map(self.file.as_fd(), pieces, access) {
                Err(Error::Os { source, .. })
                    if source.raw_os_error() == Some(Errno::BUSY.raw_os_error()) =>
                {
                    if begin.elapsed() >= limit {
                        return Err(self.refused(
                            ErrorKind::Busy,
                            format!(
                                "{}: its room below 1 MiB is another starting node's, which has not \
                                 come so far within {limit:?} that it gives that up: see \
                                 kumiki node ls, and kumiki node kill the one that hangs",
                                self.title()
                            ),
                        ));
                    }
                    std::thread::sleep(SLICE_LOOK);
                }
                outcome => return outcome,
            }
        }
    }

    pub fn bell(&self) -> &File {
        &self.file
    }

    /// Its name in a message.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.noun(), self.name)
    }

    fn refused(&self, kind: ErrorKind, text: String) -> Error {
        Error::refused(kind, self.kind.subject(&self.name), text)
    }

    fn failed(&self, doing: &str, error: Errno) -> Error {
        if error == Errno::ALREADY {
            return self.refused(
                ErrorKind::Busy,
                format!(
                    "{} was started or stopped by another kumiki meanwhile: see kumiki {} ls",
                    self.title(),
                    self.kind.noun()
                ),
            );
        }
        Error::os(format!("{doing} {}", self.title()), error)
    }
}

/// Refusal of a new node or image.
fn not_created(kind: Holding, name: &str, error: Errno) -> Error {
    match error {
        Errno::EXIST => exists(kind, name),
        Errno::NOSPC => Error::refused(
            ErrorKind::NoMemory,
            kind.subject(name),
            format!(
                "node {name}: no 32 KiB below 1 MiB are left; delete another node (kumiki node ls)"
            ),
        ),
        error => Error::os(format!("making {} {name}", kind.noun()), error),
    }
}

/// Refusal of an attachment.
fn not_attached(kind: Holding, name: &str, mode: u32, error: Errno) -> Error {
    let noun = kind.noun();
    match (error, mode) {
        (Errno::NOENT, _) => Error::refused(
            ErrorKind::NotFound,
            kind.subject(name),
            format!("there is no {noun} {name}: see kumiki {noun} ls"),
        ),
        (Errno::BUSY, abi::TALK) => Error::refused(
            ErrorKind::Busy,
            kind.subject(name),
            format!(
                "all {} channels of node {name} are in use: end another exec",
                abi::CHANNELS - abi::RESERVED_CHANNELS
            ),
        ),
        (Errno::BUSY, abi::SERVE) => Error::refused(
            ErrorKind::Busy,
            kind.subject(name),
            format!("node {name} is served already"),
        ),
        (Errno::BUSY, _) => {
            // It may be gone by now, or only read.
            let owner = sysfs::one(kind, name).ok().filter(|entry| entry.owner != 0);
            let process = owner.map(|entry| format!(" (process {})", entry.owner));
            Error::refused(
                ErrorKind::Busy,
                kind.subject(name),
                format!(
                    "{noun} {name} is in use by another kumiki{}: wait for it, or end it",
                    process.unwrap_or_default()
                ),
            )
        }
        (Errno::NOTCONN, _) => Error::refused(
            ErrorKind::NotRunning,
            kind.subject(name),
            format!("node {name} does not run: kumiki node start {name}"),
        ),
        (error, _) => Error::os(format!("attaching to {noun} {name}"), error),
    }
}

/// Error for a name that is taken.
pub fn exists(kind: Holding, name: &str) -> Error {
    let noun = kind.noun();
    Error::refused(
        ErrorKind::Exists,
        kind.subject(name),
        format!("{noun} {name} exists: choose another name, or remove it first"),
    )
}

/// Memory that the host's kernel takes for available without swapping.
pub fn available_bytes() -> Result<u64> {
    let path = "/proc/meminfo";
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| {
        Error::refused(
            ErrorKind::Unsupported,
            Subject::File(path.into()),
            format!("{path} has no MemAvailable: Linux 3.14 is needed"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_the_module_has_a_kind() {
        let file = File::open("/dev/null").unwrap();
        let device = Device { file, kind: Holding::Node, name: "n1".into() };
        let attached = |mode, error| not_attached(Holding::Node, "n1", mode, error);
        let rows = [
            (ErrorKind::Exists, not_created(Holding::Node, "n1", Errno::EXIST)),
            (ErrorKind::NoMemory, not_created(Holding::Node, "n1", Errno::NOSPC)),
            (ErrorKind::System, not_created(Holding::Image, "i1", Errno::NOMEM)),
            (ErrorKind::NotFound, attached(abi::OWN, Errno::NOENT)),
            (ErrorKind::Busy, attached(abi::TALK, Errno::BUSY)),
            (ErrorKind::NotRunning, attached(abi::TALK, Errno::NOTCONN)),
            (ErrorKind::System, attached(abi::READ, Errno::PERM)),
            (ErrorKind::NoCpu, device.no_cpu(1, Errno::BUSY)),
            (ErrorKind::NoCpu, device.no_cpu(1, Errno::OPNOTSUPP)),
            (ErrorKind::Full, device.no_memory("taking", Errno::NOSPC)),
            (ErrorKind::NoMemory, device.no_memory("taking", Errno::NODEV)),
            (ErrorKind::Busy, device.failed("sealing", Errno::ALREADY)),
            (ErrorKind::Lost, device.not_arrived("stopping", Errno::IO)),
            // It is not the module's device.
            (ErrorKind::System, device.lend().unwrap_err()),
        ];
        for (kind, error) in rows {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
