//! The module's device: one descriptor, attached to one node or image.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use kumiki_boot::Piece;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, NoArg, Updater, ioctl};

use crate::blocks::{Lock, Notes};
use crate::memory::Memory;
use crate::{Error, Result, abi};

/// What a descriptor is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Node,
    Image,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Kind::Node => abi::NODE,
            Kind::Image => abi::IMAGE,
        }
    }

    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Image => "image",
        }
    }
}

/// How long a release waits for others to leave.
const LEAVING_LIMIT: Duration = Duration::from_secs(5);

/// The host must go on: so much is not given away.
pub(crate) const HOST_KEEPS_BYTES: u64 = 64 << 20;

pub(crate) struct Device {
    file: File,
    kind: Kind,
    name: String,
}

/// Whether the module is there and speaks this version; says what is missing.
pub fn probe() -> Result<()> {
    open(false).map(drop)
}

fn open(writable: bool) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(writable).open(abi::DEVICE);
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::Unsupported {
            feature: format!("the module osnode ({})", abi::DEVICE),
            needs: "build kernel/osnode against this kernel's headers and load osnode.ko, or try \
                    it in a virtual machine: kumiki lab run --nodes"
                .into(),
        },
        ErrorKind::PermissionDenied => Error::Unsupported {
            feature: abi::DEVICE.into(),
            needs: "root is needed, and a kernel that is not locked down \
                    (/sys/kernel/security/lockdown; Secure Boot locks it): a node's kernel \
                    reaches all memory"
                .into(),
        },
        _ => Error::file(abi::DEVICE, error),
    })?;
    let mut loaded = 0;
    version(&file, &mut loaded)
        .map_err(|error| Error::os(format!("asking {} its version", abi::DEVICE), error))?;
    if loaded != abi::VERSION {
        return Err(Error::Unsupported {
            feature: format!("version {} of the module osnode", abi::VERSION),
            needs: format!(
                "version {loaded} is loaded: rmmod osnode, and load the one of this kumiki"
            ),
        });
    }
    Ok(file)
}

/// A function for each request with an argument, and for each without.
macro_rules! requests {
    ($($name:ident $code:ident $argument:ty;)* - $($order:ident $order_code:ident;)*) => {
        $(fn $name(file: &File, argument: &mut $argument) -> Result<(), Errno> {
            // SAFETY: by the header this request reads, writes or both one such
            // argument, whose size is part of its code.
            let updater = unsafe { Updater::<{ abi::$code }, $argument>::new(argument) };
            // SAFETY: as above; the kernel keeps no pointer to it.
            unsafe { ioctl(file, updater) }
        })*
        $(fn $order(file: &File) -> Result<(), Errno> {
            // SAFETY: by the header this request takes no argument.
            let order = unsafe { NoArg::<{ abi::$order_code }>::new() };
            // SAFETY: as above.
            unsafe { ioctl(file, order) }
        })*
    };
}

requests! {
    version IOC_VERSION u32;
    create IOC_CREATE abi::Create;
    attach IOC_ATTACH abi::Attach;
    memory IOC_MEMORY abi::Memory;
    cpu IOC_CPU abi::Cpu;
    link IOC_LINK abi::Link;
    -
    seal IOC_SEAL;
    start IOC_START;
    lend IOC_LEND;
    stop IOC_STOP;
    release IOC_RELEASE;
    bell IOC_BELL;
}

/// A name that the module takes, with zeros behind it.
pub(crate) fn padded(kind: Kind, name: &str) -> Result<[u8; abi::NAME_BYTES]> {
    let good =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let fits = (1..abi::NAME_BYTES).contains(&name.len());
    if !fits || name.starts_with('.') || !name.bytes().all(good) {
        return Err(Error::Refused(format!(
            "{name:?} cannot name {}: 1 to 31 of a-z, 0-9, '.', '_' and '-', not beginning with '.'",
            if kind == Kind::Node { "a node" } else { "an image" }
        )));
    }
    let mut bytes = [0; abi::NAME_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytes)
}

impl Device {
    /// Makes a node or an image; this descriptor owns it. Returns its low slice.
    pub(crate) fn create(kind: Kind, name: &str) -> Result<(Self, u64)> {
        let mut wanted =
            abi::Create { name: padded(kind, name)?, kind: kind.number(), ..Default::default() };
        let file = open(true)?;
        let noun = kind.noun();
        let lock = Lock::take()?;
        // Memory that is still off line for nobody.
        lock.sweep();
        create(&file, &mut wanted).map_err(|error| match error {
            Errno::EXIST => exists(kind, name),
            Errno::NOSPC => Error::Refused(format!(
                "node {name}: no 128 KiB below 1 MiB are left; delete another node (kumiki node ls)"
            )),
            error => Error::os(format!("making {noun} {name}"), error),
        })?;
        let device = Device { file, kind, name: name.to_owned() };
        Ok((device, wanted.slice))
    }

    /// Takes over what exists and nobody owns now.
    pub(crate) fn own(kind: Kind, name: &str) -> Result<Self> {
        Self::attach(kind, name, abi::OWN).map(|(device, _)| device)
    }

    /// For reading.
    pub(crate) fn read(kind: Kind, name: &str) -> Result<Self> {
        Self::attach(kind, name, abi::READ).map(|(device, _)| device)
    }

    /// For a talk with a running node; returns its channel.
    pub(crate) fn talk(name: &str) -> Result<(Self, usize)> {
        let (device, channel) = Self::attach(Kind::Node, name, abi::TALK)?;
        Ok((device, channel as usize))
    }

    fn attach(kind: Kind, name: &str, mode: u32) -> Result<(Self, u32)> {
        let mut wanted = abi::Attach {
            name: padded(kind, name)?,
            kind: kind.number(),
            mode,
            ..Default::default()
        };
        // What may be read only must not even be open for writing.
        let file = open(mode != abi::READ)?;
        let noun = kind.noun();
        attach(&file, &mut wanted).map_err(|error| match (error, mode) {
            (Errno::NOENT, _) => {
                Error::Refused(format!("there is no {noun} {name}: see kumiki {noun} ls"))
            }
            (Errno::BUSY, abi::TALK) => Error::Refused(format!(
                "all {} channels of node {name} are in use: end another exec",
                abi::CHANNELS
            )),
            (Errno::BUSY, _) => Error::Refused(format!(
                "{noun} {name} is in use by another kumiki: wait for it, or end it \
                 (its process id is in kumiki {noun} ls)"
            )),
            (Errno::NOTCONN, _) => {
                Error::Refused(format!("node {name} does not run: kumiki node start {name}"))
            }
            (error, _) => Error::os(format!("attaching to {noun} {name}"), error),
        })?;
        Ok((Device { file, kind, name: name.to_owned() }, wanted.channel))
    }

    /// One more piece; `None` if so much is not there in one.
    pub(crate) fn memory(&self, bytes: u64, numa_node: u32) -> Result<Option<Piece>> {
        let mut wanted = abi::Memory { bytes, numa_node, ..Default::default() };
        match memory(&self.file, &mut wanted) {
            Ok(()) => Ok(Some(Piece { address: wanted.address, bytes })),
            Err(Errno::NOMEM) => Ok(None),
            Err(error) => Err(self.no_memory("taking", error)),
        }
    }

    /// One more piece, of memory that this machine's kernel does not use.
    pub(crate) fn claim(&self, piece: &Piece) -> Result<()> {
        let mut wanted =
            abi::Memory { bytes: piece.bytes, numa_node: 0, reserved: 0, address: piece.address };
        memory(&self.file, &mut wanted).map_err(|error| match error {
            Errno::BUSY => Error::Refused(format!(
                "memory at {:#x}, {} bytes: this machine's kernel or another node uses some of it, \
                 or it is no RAM",
                piece.address, piece.bytes
            )),
            error => self.no_memory("claiming", error),
        })
    }

    fn no_memory(&self, doing: &str, error: Errno) -> Error {
        match error {
            Errno::NOSPC => Error::Refused(format!(
                "{} has {} pieces of memory already, which is the most: ask for less, or for \
                 fewer and larger pieces",
                self.title(),
                abi::PIECES
            )),
            Errno::NODEV => Error::Refused(format!(
                "{}: a NUMA node that this machine's kernel names is not on line: try again, or \
                 choose other cpus",
                self.title()
            )),
            error => self.failed(&format!("{doing} memory for"), error),
        }
    }

    pub(crate) fn notes(&self) -> Notes {
        Notes::of(self.kind, &self.name)
    }

    /// One more cpu, which must be offline; returns its APIC id.
    pub(crate) fn cpu(&self, cpu: u32) -> Result<u32> {
        let mut wanted = abi::Cpu { cpu, apic_id: 0 };
        self::cpu(&self.file, &mut wanted).map_err(|error| match error {
            Errno::BUSY => Error::Refused(format!(
                "cpu {cpu} is in use, by the host or by another node: choose another"
            )),
            Errno::OPNOTSUPP => Error::Refused(format!(
                "cpu {cpu} has an APIC id above 254, which a node's kernel is not told yet: \
                 choose another"
            )),
            error => self.failed(&format!("taking cpu {cpu} for"), error),
        })?;
        Ok(wanted.apic_id)
    }

    /// Makes this one more name for a sealed image.
    pub(crate) fn link(&self, image: &str) -> Result<()> {
        let mut wanted = abi::Link { name: padded(Kind::Image, image)? };
        link(&self.file, &mut wanted).map_err(|error| self.failed("naming one more", error))
    }

    pub(crate) fn seal(&self) -> Result<()> {
        seal(&self.file).map_err(|error| self.failed("sealing", error))
    }

    pub(crate) fn start(&self) -> Result<()> {
        start(&self.file).map_err(|error| self.not_arrived("starting", error))
    }

    /// Leaves the start to another node.
    pub(crate) fn lend(&self) -> Result<()> {
        lend(&self.file).map_err(|error| self.failed("lending", error))
    }

    /// Whether it is stopped: not while another node starts it.
    pub(crate) fn stop(&self) -> Result<bool> {
        match stop(&self.file) {
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
        Error::Refused(format!(
            "{doing} {title}: an interrupt to a cpu of it was not seen to arrive within 1 ms, so \
             that cpu may run or not, and is kept from the host: kumiki node kill {name} tries \
             to stop it again"
        ))
    }

    /// Gives everything back, once those who still look at it have gone: clients
    /// of a node that was stopped need a moment to see it.
    pub(crate) fn release(&self) -> Result<()> {
        self.release_if(|| Ok(()))
    }

    /// The same, unless it `may` not go, which is asked anew after each wait.
    pub(crate) fn release_if(&self, may: impl Fn() -> Result<()>) -> Result<()> {
        let begin = Instant::now();
        loop {
            may()?;
            let lock = Lock::take()?;
            match release(&self.file) {
                Err(Errno::BUSY) if begin.elapsed() < LEAVING_LIMIT => {
                    drop(lock);
                    std::thread::sleep(LEAVING_LIMIT / 100);
                }
                Err(Errno::BUSY) => {
                    return Err(Error::Refused(format!(
                        "{} {} is in use: stop it first, and end what reads it",
                        self.kind.noun(),
                        self.name
                    )));
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

    pub(crate) fn ring(&self) -> Result<()> {
        ring(&self.file).map_err(|error| self.failed("ringing", error))
    }

    pub(crate) fn map(&self, pieces: &[Piece], writable: bool) -> Result<Memory> {
        Memory::map(self.file.as_fd(), pieces, writable)
    }

    pub(crate) fn bell(&self) -> &File {
        &self.file
    }

    /// What it is called in a message.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind.noun(), self.name)
    }

    fn failed(&self, doing: &str, error: Errno) -> Error {
        if error == Errno::ALREADY {
            return Error::Refused(format!(
                "{} was started or stopped by another kumiki meanwhile: see kumiki {} ls",
                self.title(),
                self.kind.noun()
            ));
        }
        Error::os(format!("{doing} {}", self.title()), error)
    }
}

/// That a name is taken.
pub(crate) fn exists(kind: Kind, name: &str) -> Error {
    let noun = kind.noun();
    Error::Refused(format!("{noun} {name} exists: choose another name, or remove it first"))
}

/// What the host's kernel takes for available without swapping.
pub(crate) fn available_bytes() -> Result<u64> {
    let path = "/proc/meminfo";
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10)
        .ok_or_else(|| Error::Refused(format!("{path} has no MemAvailable: Linux 3.14 is needed")))
}

/// Rings the other side, from either.
pub(crate) fn ring(device: &File) -> Result<(), Errno> {
    bell(device)
}

/// In a node: interrupts to the cpus of another one, whose window is there.
macro_rules! guest_requests {
    ($($name:ident $code:ident;)*) => {
        $(pub(crate) fn $name(guest: &File, window: u64) -> Result<(), Errno> {
            // SAFETY: by the header this request takes a number, which it checks.
            let request = unsafe { IntegerSetter::<{ abi::$code }>::new_usize(window as usize) };
            // SAFETY: as above.
            unsafe { ioctl(guest, request) }
        })*
    };
}

guest_requests! {
    guest_init GUEST_IOC_INIT;
    guest_start GUEST_IOC_START;
}

/// Sleeps until a doorbell rings, one of `others` is ready, or time is over.
/// What has rung since the last call counts, so that nothing is missed between
/// a look at the window and this.
pub(crate) fn wait(
    mut device: &File,
    others: &[(BorrowedFd<'_>, PollFlags)],
    limit: Duration,
) -> io::Result<()> {
    let bell = PollFd::new(device, PollFlags::IN);
    let others = others.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags));
    let mut fds: Vec<_> = [bell].into_iter().chain(others).collect();
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if fds[0].revents().contains(PollFlags::IN) {
        let mut count = [0; 8];
        device.read_exact(&mut count)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_module_would_refuse_is_refused_with_the_rule() {
        assert_eq!(&padded(Kind::Node, "n1").unwrap()[..3], b"n1\0");
        assert!(padded(Kind::Image, &"x".repeat(31)).is_ok());
        for name in ["", "N1", ".n", "a/b", "a b", &"x".repeat(32)] {
            let error = padded(Kind::Node, name).unwrap_err().to_string();
            assert!(error.contains("1 to 31"), "{error}");
        }
    }
}
