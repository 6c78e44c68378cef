//! What can go wrong.

use std::path::PathBuf;

/// Reason for which there is no answer.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A command could not be started.
    #[error(
        "{side} cannot be started: {command}: {source}: is it in PATH, and may it be executed?"
    )]
    Start {
        /// `A` or `B`.
        side: char,
        /// The command as it was given.
        command: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A command failed when it was first tried, or fails too often.
    #[error(
        "{side} fails: {command}: {how}{said}: it runs without a terminal, with an empty standard \
         input; let it succeed, or count failures as runs with --ignore-failure"
    )]
    Fails {
        /// `A` or `B`.
        side: char,
        /// The command as it was given.
        command: String,
        /// Exit status or signal, and how often.
        how: String,
        /// The end of what it wrote to standard error, if anything.
        said: String,
    },
    /// A command that should print a result did not.
    #[error("{side} prints no result of `kumiki measure --json`: {command}: {why}")]
    NoResult {
        /// `A` or `B`.
        side: char,
        /// The command as it was given.
        command: String,
        /// Finding that stands in the way.
        why: String,
    },
    /// A command that is run before each run failed.
    #[error("--prepare {command}: {how}")]
    Prepare {
        /// The command.
        command: String,
        /// Exit status or signal.
        how: String,
    },
    /// Instructions shall decide and are not counted.
    #[error(
        "--by instructions: no counter of instructions here: the machine has none that it shows (a \
         virtual one often has not), or perf_event_open(2) is forbidden \
         (/proc/sys/kernel/perf_event_paranoid must be 2 or less); --by cpu needs none"
    )]
    Uncounted,
    /// B was kept by other measures than those that judge.
    #[error(
        "--against: B was kept by {kept}, and is judged here by {asked}: no number of pairs would tell \
         one by the other; leave out --by or give one that was kept, or keep a comparison anew"
    )]
    Unkept {
        /// Measures by which it is known.
        kept: String,
        /// Measures that judge.
        asked: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// Operation that failed, and the thing it was done to.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that was saved is none, or cannot be compared with.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Reason, and the way out.
        why: String,
    },
}

kumiki_sys::debug_is_display!(Error);

/// Short for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;
