//! Any system call in parallel, on a stock kernel.
//!
//! A requesting thread writes requests into memory that it shares with *processing
//! threads* of the same process (Nakamura, "Parallelising system calls by shared
//! memory"): these make the calls, the requesting thread helps, and a cost model learns
//! for each call whether that pays. It works for any call, on any kernel, also where
//! io_uring is forbidden. Where nothing can be gained, a batch takes hardly longer than
//! the plain calls one after the other: some 20 ns, and what the model spends on probes
//! (`docs/design/parasc.md`, "Where it loses").
//!
//! ```text
//!  requesting thread          request area                  processing threads
//!  run ──── offers ─────────▶ a line of 64 bytes ── claim ─▶ one on each other cpu,
//!  makes calls itself,        for each requesting thread     up to 64 for calls that
//!  from the other end                            ◀─ made ──  sleep, and the program's
//!  submit, place ───────────▶ a queue ────────────────────▶  (Engine::process)
//! ```
//!
//! ```
//! use kumiki_parasc::op::Pread;
//! use kumiki_parasc::{Config, Engine};
//!
//! let engine = Engine::new(&Config::default())?;
//! let mut requester = engine.requester()?;
//! let zero = std::fs::File::open("/dev/zero")?;
//! // A batch has no order; each operation owns its buffer.
//! let mut reads: Vec<_> = (0..50).map(|_| Pread::new(&zero, 0, [1; 512])).collect();
//! let lengths = requester.run(&mut reads)?;
//! assert!(lengths.iter().all(|length| *length == Ok(512)));
//! assert_eq!(reads[49].filled(), [0; 512]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Requester::run`] makes a batch of calls and waits for it; [`Engine::submit`] returns
//! a future for one call; [`Engine::place`] and [`Engine::wait`] are the paper's own
//! interface.
//!
//! # Another thread makes the call
//! Memory, descriptors, working directory and limits belong to the process. State that
//! belongs to one thread differs in a processing thread, and calls on it are
//! [refused](refusal_of). A processing thread has the credentials, namespaces, seccomp
//! filter and Landlock domain of the thread that first needed it, **as they were then**.
//! What a thread changes later for itself alone does not apply to its requests: create
//! the engine after the change, or change all threads (`SECCOMP_FILTER_FLAG_TSYNC`;
//! setuid(3), but not the system call).
//!
//! The caller is responsible for what numbers and arguments cannot show:
//! - names and files that mean the calling thread: `/proc/thread-self`, a `0`
//!   written to `cgroup.threads`, `tasks` or `set_ftrace_pid`;
//! - a read of a signalfd receives the signals of the reading thread;
//! - memory under a protection key: the rights are the thread's (pkeys(7)), and
//!   the processing thread may lack them (`EFAULT`);
//! - `SIGPIPE`, `SIGXFSZ` and other signals that a call sends to its caller go to the
//!   processing thread, which blocks them: the error (`EPIPE`, `EFBIG`) is still
//!   returned;
//! - an ioctl may act on the thread that makes it (KVM requires those on a virtual cpu to
//!   come from one thread);
//! - `O_ASYNC`, set by fcntl or ioctl, makes some drivers (terminals, tun) signal the
//!   thread that set it, until that retires: name the receiver with `F_SETOWN`
//!   afterwards;
//! - `IORING_SETUP_SINGLE_ISSUER` binds a ring to the thread that sets it up, and
//!   `IORING_SETUP_REGISTERED_FD_ONLY` registers it for that thread;
//! - where the sysctl `kernel.shm_rmid_forced` is 1, memory of shmget(2) that nobody has
//!   attached is removed when the thread that made it ends;
//! - `chdir`, `chroot`, `umask` and the like apply to the whole process, and so to the
//!   other requests of the batch, which has no order.
//!
//! # Calls that an engine makes by itself
//! An engine maps memory, starts threads, binds them and blocks their signals, sleeps and
//! wakes, fences memory (membarrier(2)), reads clocks, asks which cpus it may use, asks
//! prctl(2) for its seccomp mode and stat(2) whether the process has other threads
//! (`/proc/self/task`), and reads the topology of the cpus (below `/sys`). Beside calls
//! that take long it asks getrusage(2) how often the thread has slept. Before a batch of fsync or fdatasync it makes
//! sync_file_range(2) on the same descriptors, so that all files are written at once; its
//! `EIO`, `ENOSPC` or `EDQUOT` is returned by a call that found nothing left to write. It
//! does not do so if an [`AllowList`] lacks the call, or if a seccomp filter is on the
//! calling thread or on any of the engine's when the batch begins.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod again;
mod area;
mod awaited;
pub mod backend;
mod choice;
mod claim;
mod config;
mod core;
mod cost;
mod differences;
mod engine;
mod error;
mod execute;
mod job;
mod line;
#[cfg(all(test, loom))]
mod loom;
mod pending;
mod placed;
mod primitive;
mod queue;
mod requester;
mod sequence;
mod side;
#[cfg(sim)]
#[doc(hidden)]
pub mod simulated;
mod task;
#[cfg(all(test, not(loom)))]
mod tests;
mod then;
mod threads;
mod ticket;
pub mod tries;

/// The names by which the engine has them.
pub use backend::Backend;
pub use config::Config;
pub use engine::Engine;
pub use error::{Error, Result};
pub use job::Job;
pub use kumiki_calls::op::{self, Operation};
pub use kumiki_calls::{
    AllowError, AllowList, Contends, Kind, Refusal, RefusalKind, Request, kind, may_sleep, refusal,
    refusal_of, refusals,
};
pub use kumiki_sys::cpuset::CpuSet;
pub use kumiki_wait::{Error as WaitError, Policy, Relax, Sleep, Threshold};
pub use pending::{Completed, Failed, Outcome, Pending};
pub use requester::Requester;
pub use sequence::Sequence;
pub use then::Then;
pub use ticket::Ticket;
pub use tries::{Attempt, Completions};
