//! What a child is to be, apart from its program.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use bitflags::bitflags;
use kumiki_sys::cpuset::CpuSet;

/// A process's resource that is limited (`RLIMIT_NOFILE`, …).
pub use rustix::process::Resource;

bitflags! {
    /// Namespaces that a child begins anew: it is in one of its own of each kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Namespaces: u64 {
        /// Mounts.
        const MOUNT = 0x0002_0000;
        /// Root of the cgroup hierarchy, as it sees it.
        const CGROUP = 0x0200_0000;
        /// Host and domain name.
        const UTS = 0x0400_0000;
        /// System V's and POSIX's messages, semaphores and shared memory.
        const IPC = 0x0800_0000;
        /// Users and what they may. For who has no rights it comes with others of these.
        const USER = 0x1000_0000;
        /// Process ids: the child is process 1 of its own.
        const PID = 0x2000_0000;
        /// Network devices, addresses, ports.
        const NET = 0x4000_0000;
        /// Clocks of time since boot.
        const TIME = 0x0000_0080;
    }
}

/// A signal to be said: a [`Signal`](crate::Signal), or a number, as those for real time have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalNumber(pub(crate) i32);

impl From<rustix::process::Signal> for SignalNumber {
    fn from(signal: rustix::process::Signal) -> SignalNumber {
        SignalNumber(signal.as_raw())
    }
}

/// A number that no signal has is refused when the program is started.
impl From<i32> for SignalNumber {
    fn from(number: i32) -> SignalNumber {
        SignalNumber(number)
    }
}

/// Signals by their numbers; bit `n - 1` is signal n.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals(pub(crate) u64);

impl Signals {
    /// `None` if one has no number that a signal may have.
    pub(crate) fn of(numbers: impl IntoIterator<Item = i32>) -> Result<Signals, i32> {
        let bit = |number: i32| match number {
            1..=64 => Ok(1 << (number - 1)),
            _ => Err(number),
        };
        numbers.into_iter().map(bit).try_fold(0, |all, bit| Ok(all | bit?)).map(Signals)
    }

    /// Their numbers.
    pub(crate) fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |number| self.0 & 1 << (number - 1) != 0)
    }
}

/// A descriptor of the caller's.
#[derive(Debug)]
pub(crate) enum Descriptor {
    Own(OwnedFd),
    /// Descriptor that its owner keeps.
    Lent(BorrowedFd<'static>),
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Descriptor::Own(fd) => fd.as_fd(),
            Descriptor::Lent(fd) => *fd,
        }
    }
}

/// Set by [`Command`](crate::Command)'s methods, which say what each is.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) groups: Option<Vec<u32>>,
    pub(crate) umask: Option<u32>,
    pub(crate) nice: Option<i32>,
    /// Policy, if that is another one, and priority.
    pub(crate) scheduler: Option<(Option<i32>, i32)>,
    pub(crate) group: Option<i32>,
    /// Its root folder.
    pub(crate) root: Option<PathBuf>,
    /// Its working folder, where that was said by a descriptor.
    pub(crate) folder: Option<OwnedFd>,
    pub(crate) session: bool,
    pub(crate) terminal: Option<Descriptor>,
    /// Resource, soft and hard limit.
    pub(crate) limits: Vec<(Resource, u64, u64)>,
    pub(crate) cgroup: Option<Descriptor>,
    pub(crate) namespaces: Namespaces,
    /// Users and groups of its user namespace: the first there, the first here, how many.
    pub(crate) maps: [Vec<(u32, u32, u32)>; 2],
    pub(crate) cpus: Option<CpuSet>,
    /// `None`: those that the calling thread blocks.
    pub(crate) blocked: Option<Signals>,
    pub(crate) default: Signals,
    pub(crate) ignored: Signals,
    pub(crate) parent_death: Option<i32>,
    /// Descriptors beside the standard ones, with their numbers in the child.
    pub(crate) fds: Vec<(OwnedFd, i32)>,
    pub(crate) keep_others: bool,
    /// SIGPIPE is what it is to the caller.
    pub(crate) keep_pipe: bool,
    /// Its effective user and group are the caller's real ones.
    pub(crate) reset_ids: bool,
    /// The child begins in a server's memory, not in the caller's.
    pub(crate) by_server: bool,
    /// The first thing that was said and cannot be, in words.
    pub(crate) wrong: Option<String>,
}

impl Attributes {
    /// True if a server makes the child: by request, or because it takes another identity, which
    /// nobody should do in the caller's memory.
    pub(crate) fn wants_server(&self) -> bool {
        let other = self.uid.is_some() || self.gid.is_some() || self.groups.is_some();
        let resets = || self.reset_ids && has_other_ids();
        self.by_server || other || resets() || !self.spaces().is_empty()
    }

    /// Its namespaces, with the one that its maps are of.
    pub(crate) fn spaces(&self) -> Namespaces {
        if self.has_maps() { self.namespaces | Namespaces::USER } else { self.namespaces }
    }

    /// True if somebody has to write the maps of its user namespace.
    pub(crate) fn has_maps(&self) -> bool {
        self.maps.iter().any(|map| !map.is_empty())
    }

    /// The first of them that was said, in words.
    pub(crate) fn first_said(&self) -> Option<&'static str> {
        let said = [
            (self.uid.is_some(), "the user"),
            (self.gid.is_some(), "the group"),
            (self.groups.is_some(), "supplementary groups"),
            (self.umask.is_some(), "the umask"),
            (self.nice.is_some(), "the nice value"),
            (self.scheduler.is_some(), "the scheduling policy"),
            (self.group.is_some(), "the process group"),
            (self.root.is_some(), "the root folder"),
            (self.folder.is_some(), "a working folder by its descriptor"),
            (self.session, "the session"),
            (!self.limits.is_empty(), "limits"),
            (self.cgroup.is_some(), "the cgroup"),
            (!self.spaces().is_empty(), "namespaces"),
            (self.cpus.is_some(), "cpus"),
            (self.blocked.is_some() || self.default.0 | self.ignored.0 != 0, "signals"),
            (self.parent_death.is_some(), "the parent-death signal"),
            (!self.fds.is_empty() || self.keep_others, "descriptors above 2"),
            (self.keep_pipe, "SIGPIPE"),
            (self.reset_ids, "its ids"),
        ];
        said.into_iter().find_map(|(is_said, name)| is_said.then_some(name))
    }
}

/// True if the calling process's effective ids are not its real ones.
fn has_other_ids() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    (getuid(), getgid()) != (geteuid(), getegid())
}
