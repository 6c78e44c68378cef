//! What a subject is asked for: batches of one kind of system call.

use serde::{Deserialize, Serialize};

use crate::case::Case;

/// A batch of `n` calls, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    /// Calls.
    pub(crate) kind: Kind,
    /// Number of calls.
    pub(crate) n: usize,
    /// Which instance of the subject does it: a new number, a new instance.
    pub(crate) instance: usize,
    /// By a plain loop in the subject's process: the same calls on the same files.
    pub(crate) plain: bool,
}

/// Calls of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The cheapest call.
    Getppid,
    /// 4096 bytes of /dev/zero, each by an open file of its own.
    ReadZeroOwn,
    /// The same, all by one open file.
    ReadZeroOne,
    /// 4096 bytes of a file in the page cache, each of a file of its own.
    PreadOwn,
    /// The same, all by one open file, at offsets of their own.
    PreadOne,
    /// Attributes of files by their full names.
    Statx,
    /// The same while so many other processes keep cpus busy.
    StatxBusy(u8),
    /// The same, with a thread of the program that serves, and none of the engine's.
    OwnThreads,
    /// The same, placed one by one, waited for, and collected one by one: the paper's usage.
    ByHand,
    /// The same, submitted one by one.
    Submit,
    /// All files opened, then all closed.
    OpenClose,
    /// Files with some new bytes each.
    FsyncDirty,
    /// A file in each of many directories.
    UnlinkMany,
    /// Files of one directory.
    UnlinkOne,
    /// The same while one other process keeps a cpu busy …
    UnlinkOneBusy1,
    /// … or two do.
    UnlinkOneBusy2,
    /// 64 KiB each of one file, none of which is in the page cache.
    PreadCold,
    /// The same after a phase in which all of it was.
    PreadColdWarmed,
    /// All mapped, then all unmapped: 64 KiB that nobody touches.
    Mmap,
    /// 100 µs each.
    Nanosleep,
    /// One getppid made by another thread that is awake.
    Handoff,
}

impl Kind {
    /// True if the calls sleep in the kernel rather than work there.
    pub(crate) fn sleeps(self) -> bool {
        matches!(self, Kind::FsyncDirty | Kind::Nanosleep) || self.is_cold()
    }

    /// True if each read waits for a disk.
    pub(crate) fn is_cold(self) -> bool {
        matches!(self, Kind::PreadCold | Kind::PreadColdWarmed)
    }

    /// True if all files are removed from one directory.
    pub(crate) fn is_unlink_one(self) -> bool {
        matches!(self, Kind::UnlinkOne | Kind::UnlinkOneBusy1 | Kind::UnlinkOneBusy2)
    }

    /// True if each request is handed over for itself.
    pub(crate) fn is_one_by_one(self) -> bool {
        matches!(self, Kind::ByHand | Kind::Submit)
    }

    /// Other processes that keep a cpu busy meanwhile.
    pub(crate) fn busy(self) -> usize {
        match self {
            Kind::UnlinkOneBusy1 => 1,
            Kind::UnlinkOneBusy2 => 2,
            Kind::StatxBusy(busy) => busy.into(),
            _ => 0,
        }
    }
}

impl Case for Batch {
    fn name(self) -> &'static str {
        match self.kind {
            Kind::Getppid => "getppid",
            Kind::ReadZeroOwn => "read_zero_own",
            Kind::ReadZeroOne => "read_zero_one",
            Kind::PreadOwn => "pread_own",
            Kind::PreadOne => "pread_one",
            Kind::Statx => "statx",
            Kind::StatxBusy(1) => "statx_busy1",
            Kind::StatxBusy(2) => "statx_busy2",
            Kind::StatxBusy(4) => "statx_busy4",
            Kind::StatxBusy(_) => "statx_busy8",
            Kind::OwnThreads => "own_threads",
            Kind::ByHand => "by_hand",
            Kind::Submit => "submit",
            Kind::OpenClose => "open_close",
            Kind::FsyncDirty => "fsync_dirty",
            Kind::UnlinkMany => "unlink_many",
            Kind::UnlinkOne => "unlink_one",
            Kind::UnlinkOneBusy1 => "unlink_one_busy1",
            Kind::UnlinkOneBusy2 => "unlink_one_busy2",
            Kind::PreadCold => "pread_cold",
            Kind::PreadColdWarmed => "pread_cold_warmed",
            Kind::Mmap => "mmap",
            Kind::Nanosleep => "nanosleep",
            Kind::Handoff => "handoff",
        }
    }

    fn size(self) -> Option<u64> {
        Some(self.n as u64)
    }

    fn busy(self) -> usize {
        self.kind.busy()
    }
}
