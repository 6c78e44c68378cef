//! Everything that can go wrong below the other crates.

use std::io;
use std::path::PathBuf;

use crate::cpuset::CpuSet;

/// An error of this crate. The text says what failed, on which thing, with
/// which value and limit, and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// Operation, and the thing it was tried on.
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The machine lacks a feature.
    #[error("{feature} is not available: {needs}")]
    Unsupported {
        /// The missing feature.
        feature: String,
        /// Way to get it.
        needs: String,
    },
    /// A text from the kernel or from a person is malformed.
    #[error("{what}: {text:?} {why}")]
    Malformed {
        /// Meaning of the text.
        what: String,
        /// The text.
        text: String,
        /// Fault in the text.
        why: String,
    },
    /// The caller chose a value that cannot work.
    #[error("{0}")]
    Invalid(String),
    /// The cpu does not exist or is offline.
    #[error(
        "cpu {cpu} is not online (online: {online}): {}",
        if *exists {
            format!(
                "choose one that is, or switch it on with `echo 1 > \
                 /sys/devices/system/cpu/cpu{cpu}/online`"
            )
        } else {
            format!(
                "this machine has no such cpu, it has {} online; choose among them",
                online.len()
            )
        }
    )]
    CpuOffline {
        /// The cpu asked for.
        cpu: usize,
        /// The cpus that are online.
        online: CpuSet,
        /// True if the machine has it at all.
        exists: bool,
    },
    /// The cpu is online, but this thread may not use it.
    #[error(
        "cpu {cpu} is outside the allowed cpus {allowed}: choose among them (`--cpu-list {allowed}`), \
         or widen them (`taskset`, the cgroup's cpuset.cpus, `docker run --cpuset-cpus`)"
    )]
    CpuNotAllowed {
        /// The cpu asked for.
        cpu: usize,
        /// The cpus that are allowed.
        allowed: CpuSet,
    },
}

crate::debug_is_display!(Error);

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an I/O error (or a `rustix::io::Errno`).
    pub fn os(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Os { what: what.into(), source: source.into() }
    }

    /// A feature that the machine lacks, and what it needs.
    pub fn unsupported(feature: impl Into<String>, needs: impl Into<String>) -> Self {
        Error::Unsupported { feature: feature.into(), needs: needs.into() }
    }

    /// A text that is not what `what` should look like.
    pub fn malformed(
        what: impl Into<String>,
        text: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Error::Malformed { what: what.into(), text: text.into(), why: why.into() }
    }
}
