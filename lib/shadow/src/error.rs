//! Everything that can go wrong with a shadow thread.

use std::time::Duration;

use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::Deadline;

/// An error of this crate. The text says what failed, on which thing, with
/// which value and limit, and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine or the choice of cpus.
    #[error(transparent)]
    Sys(#[from] kumiki_sys::Error),
    /// This machine lacks the chosen way to wait.
    #[error(transparent)]
    Wait(#[from] kumiki_wait::Error),
    /// Every cpu that this thread may use is taken, or the chosen one is.
    #[error(
        "no cpu is free for a main thread and a helper: allowed {allowed} to this thread, taken by \
         shadows {}; allow more cpus, end a shadow, or ask for a shared cpu (`share`) or \
         none (`inline`)",
        listed(taken)
    )]
    NoFreeCpu {
        /// The cpus that this thread may use when no shadow binds it.
        allowed: CpuSet,
        /// Cpus that have a shadow's main thread or helper.
        taken: CpuSet,
    },
    /// Fewer cpus are free than a team has threads.
    #[error(
        "a team of {asked} threads has a cpu for each, and {free} are free: allowed {allowed} to \
         this thread, taken by other shadows {}; ask for {free}, allow more cpus, end a shadow, or \
         ask for shared cpus (`share`)",
        listed(taken)
    )]
    TeamTooLarge {
        /// Threads asked for, the caller included.
        asked: usize,
        /// Threads of the largest team that there could have been.
        free: usize,
        /// The cpus that this thread may use when no shadow binds it.
        allowed: CpuSet,
        /// Cpus that had main threads and helpers before.
        taken: CpuSet,
    },
    /// The helper's cpu must differ from the main thread's.
    #[error(
        "cpu {cpu} was chosen for the main thread and for the helper: choose two, or ask for a \
         shared cpu (`share`)"
    )]
    SameCpu {
        /// The cpu.
        cpu: usize,
    },
    /// The kernel refused to start a thread.
    #[error(transparent)]
    Thread(kumiki_crew::Error),
    /// A fork while a job is outstanding.
    #[error("a job was forked and not joined yet, and a shadow has one at a time: join it first")]
    Busy,
    /// A join without an outstanding job.
    #[error("there is no job to join: none was forked since the last join; fork one first")]
    NotForked,
    /// A join, in a child of fork(2), of a job that the parent had forked and that had
    /// not ended at the fork.
    #[error(
        "a job that was forked before fork(2) cannot be joined in the child: its helper stayed \
         in the parent, and runs it there; fork it again here"
    )]
    Orphaned,
    /// The time limit passed before everything had begun. What had begun has ended.
    #[error(
        "{done} of {of} {what} when the time limit of {timeout:?} was over: allow more, or try \
         again"
    )]
    TimedOut {
        /// The things that were counted: elements, members, jobs.
        what: &'static str,
        /// Number of jobs that were done in time.
        done: usize,
        /// Out of how many.
        of: usize,
        /// The limit.
        timeout: Duration,
    },
    /// A member will never come to this barrier.
    #[error(
        "a member of the team will not come to the barrier: it has panicked, has not begun in \
         time, or stayed in the parent of fork(2); see what it panicked with, allow more time, or \
         create a team here"
    )]
    Deserted,
}

kumiki_sys::debug_is_display!(Error);

impl Error {
    /// Not all was `done` in time; `what` says of what.
    pub(crate) fn late(deadline: Deadline, what: &'static str, done: usize, of: usize) -> Error {
        Error::TimedOut { what, done, of, timeout: deadline.timeout() }
    }
}

fn listed(taken: &CpuSet) -> String {
    if taken.is_empty() { "none".to_owned() } else { taken.to_string() }
}

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
