//! Times of files: which one counts, and how it is printed.

mod calendar;
mod layout;
mod zone;

use rustix::fs::Stat;

pub(crate) use layout::Layout;

/// Choice among a file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Access,
    /// Time of the last change to anything that is known about the file.
    Change,
    Modification,
}

/// Seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

impl Moment {
    pub(crate) const EPOCH: Moment = Moment { seconds: 0, nanoseconds: 0 };
    /// Moment before every other one.
    pub(crate) const NEVER: Moment = Moment { seconds: i64::MIN, nanoseconds: 0 };

    pub(crate) fn of(file: &Stat, which: Which) -> Self {
        let (seconds, nanoseconds) = match which {
            Which::Access => (file.st_atime, file.st_atime_nsec),
            Which::Change => (file.st_ctime, file.st_ctime_nsec),
            Which::Modification => (file.st_mtime, file.st_mtime_nsec),
        };
        Moment { seconds, nanoseconds: nanoseconds as u32 }
    }
}
