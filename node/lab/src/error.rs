//! What can go wrong, in the words that a person needs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Failure of a lab.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder of this machine.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// Operation that was tried, e.g. `reading`.
        action: &'static str,
        /// File of the operation.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A program of this machine that is not there or failed.
    #[error("{program}: {reason}")]
    Program {
        /// The program.
        program: String,
        /// Fault, and the way out.
        reason: String,
    },
    /// A program that cannot go into a machine, or an initramfs that cannot be made.
    #[error(transparent)]
    Boot(#[from] kumiki_boot::Error),
    /// A Debian package that cannot be had.
    #[error("{package} of Debian {release} cannot be had: {reason}")]
    Package {
        /// The package.
        package: String,
        /// Debian's name of the release, e.g. `bookworm`.
        release: String,
        /// Places where it was looked for, and the way out.
        reason: String,
    },
    /// A kernel by a name that says nothing.
    #[error("no kernel has the name `{name}`; there are {known}, or a package as RELEASE/PACKAGE")]
    UnknownKernel {
        /// Name that was asked for.
        name: String,
        /// Names that there are.
        known: String,
    },
    /// A file that is not what it should be.
    #[error("{what}: {reason}")]
    Malformed {
        /// The file or name.
        what: String,
        /// Fault of it.
        reason: String,
    },
    /// A kernel module that the kernel has not, or that is not for it.
    #[error("kernel module {module}: {reason}")]
    Module {
        /// The module.
        module: String,
        /// Fault, and the way out.
        reason: String,
    },
    /// The machine did not come as far as its agent.
    #[error("the machine did not start: {reason}{}", tail(.log))]
    NotStarted {
        /// Reason.
        reason: String,
        /// The end of its kernel log.
        log: Vec<String>,
    },
    /// The machine ended while something was asked of it.
    #[error("the machine ended before it answered: {reason}{}", tail(.log))]
    Ended {
        /// Reason.
        reason: String,
        /// The end of its kernel log.
        log: Vec<String>,
    },
    /// The kernel said that something is wrong with it.
    #[error("the kernel log shows {} fault{}:{}", .lines.len(), plural(.lines.len()), indented(.lines))]
    Faulty {
        /// The lines.
        lines: Vec<String>,
    },
    /// Something took longer than it may.
    #[error("{what} took more than {} s and was ended", limit.as_secs_f32())]
    TimeLimit {
        /// Thing that took too long.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// The agent in the machine could not do what it was asked.
    #[error("in the machine: {0}")]
    Agent(String),
    /// A lab by a name that is not there, or there already.
    #[error("lab `{name}`: {reason}")]
    Lab {
        /// Its name.
        name: String,
        /// Fault, and the way out.
        reason: String,
    },
    /// Reading for a command, or passing on what it printed.
    #[error("passing on {what}: {source}")]
    Stream {
        /// Name of the stream.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

kumiki_sys::debug_is_display!(Error);

/// The result of what a lab does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Error::File { action, path, source }
    }

    pub(crate) fn malformed(what: impl ToString, reason: impl ToString) -> Self {
        Error::Malformed { what: what.to_string(), reason: reason.to_string() }
    }
}

fn tail(log: &[String]) -> String {
    if log.is_empty() {
        "; its kernel said nothing".to_owned()
    } else {
        format!("; the end of its kernel log:{}", indented(log))
    }
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}
