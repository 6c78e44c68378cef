//! Why a thread does not serve.

/// An error of this crate.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cpu is not there, or not this process's.
    #[error(transparent)]
    Sys(#[from] kumiki_sys::Error),
    /// A chosen way to wait is not there.
    #[error(transparent)]
    Wait(#[from] kumiki_wait::Error),
    /// The kernel gave no thread.
    #[error(
        "no thread {name} on cpu {cpu}: {source}; see RLIMIT_NPROC, RLIMIT_AS and the cgroup's \
         pids.max"
    )]
    Thread {
        /// Its name.
        name: String,
        /// Cpu on which it should have run.
        cpu: usize,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// The thread has not got its cpu in time.
    #[error(
        "thread {name} was not on cpu {cpu} when the time limit was over: something of higher \
         priority may hold that cpu; allow more time, or choose another one"
    )]
    Late {
        /// Its name.
        name: String,
        /// Cpu on which it should have run.
        cpu: usize,
    },
}

kumiki_sys::debug_is_display!(Error);

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
