//! Any system call in parallel, on a stock kernel.
//!
//! A requesting thread writes requests into memory that it shares with *processing
//! threads* of the same process (Nakamura, "Parallelising system calls by shared
//! memory"): these make the calls, the requesting thread helps, and what pays is
//! learnt for each call. So it is any call, on any kernel, where io_uring is forbidden
//! too; and a batch takes hardly longer than the plain calls one after the other where
//! nothing can be gained: some 20 ns, and what is spent on finding out
//! (`docs/design/parasc.md`, "Where it loses").
//!
//! ```text
//!  requesting thread            request area               processing threads
//!  run, submit, place ─ REQUEST ─▶ slot ─▶ PROCESSING ───▶ one on each other cpu,
//!  makes calls itself,          64 bytes each              up to 64 for calls
//!  from the other end           ◀─ SUCCESS, ERROR ──────── that sleep
//! ```
//!
//! ```
//! use kumiki_parasc::op::Pread;
//! use kumiki_parasc::{Config, Engine};
//!
//! let engine = Engine::new(&Config::default())?;
//! let mut requester = engine.requester()?;
//! let zero = std::fs::File::open("/dev/zero")?;
//! // A batch in no order; each operation owns its buffer.
//! let mut reads: Vec<_> = (0..50).map(|_| Pread::new(&zero, 0, [1; 512])).collect();
//! let lengths = requester.run(&mut reads)?;
//! assert!(lengths.iter().all(|length| *length == Ok(512)));
//! assert_eq!(reads[49].filled(), [0; 512]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Requester::run`] makes a batch and waits; [`Engine::submit`] gives a future for
//! one call; [`Engine::place`] and [`Engine::wait`] are the paper's own interface.
//!
//! # Another thread makes the call
//! Memory, descriptors, working directory and limits are the process's. What a thread
//! has for itself is another one there, and calls on that are [refused](refusal_of). A
//! processing thread has the credentials, namespaces, seccomp filter and Landlock
//! domain of the thread that was the first to need it, **as they were then**. What a
//! thread changes for itself alone later does not hold for its requests: make the
//! engine after that, or change it for all threads (`SECCOMP_FILTER_FLAG_TSYNC`;
//! setuid(3), but not the system call).
//!
//! What numbers and arguments cannot show is up to whoever makes the request:
//! - names and files that mean the calling thread: `/proc/thread-self`, a `0`
//!   written to `cgroup.threads`, `tasks` or `set_ftrace_pid`;
//! - a read of a signalfd takes the signals of the reading thread;
//! - memory under a protection key: the rights are the thread's (pkeys(7)), and
//!   the processing thread may lack them (`EFAULT`);
//! - `SIGPIPE`, `SIGXFSZ` and other signals that a call brings upon its caller
//!   come to the processing thread, which has them blocked: the error (`EPIPE`,
//!   `EFBIG`) is still returned;
//! - an ioctl may mean the thread that makes it (KVM wants those on a virtual cpu
//!   from one thread);
//! - `O_ASYNC`, set by fcntl or ioctl, has some drivers (terminals, tun) signal the
//!   thread that sets it, until it has retired: say who with `F_SETOWN` after it;
//! - `IORING_SETUP_SINGLE_ISSUER` binds a ring to the thread that sets it up, and
//!   `IORING_SETUP_REGISTERED_FD_ONLY` registers it for that thread;
//! - where the sysctl `kernel.shm_rmid_forced` is 1, memory of shmget(2) to which
//!   nobody is attached goes with the thread that has made it;
//! - `chdir`, `chroot`, `umask` and the like hold for the whole process, and so
//!   for the other requests of the batch, which has no order.
//!
//! # Calls that nobody has asked for
//! An engine maps memory, starts threads, binds them and blocks their signals, sleeps and
//! wakes, has the kernel order memory (membarrier(2)), looks at clocks, asks which cpus it
//! may use, prctl(2) for its seccomp mode, and stat(2) whether the process has other threads
//! (`/proc/self/task`), and reads how cpus are related (below `/sys`). Beside calls that take
//! long it asks getrusage(2) how often the thread has slept. With [`Backend::IoUring`] it sets
//! up rings, and asks fstat(2) whether a file is one that a ring can read at a place. Before a batch of fsync
//! or fdatasync it makes sync_file_range(2) on the same descriptors, so that all files are
//! written at once, and its `EIO`, `ENOSPC` or `EDQUOT` is the answer of a call that has
//! found nothing left to write: not if an [`AllowList`] lacks it, nor if, as the batch
//! begins, a seccomp filter looks at the calling thread or at any of the engine's.

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "kumiki-parasc needs x86-64: it knows the system calls of that processor's table. \
     For aarch64 kumiki-sys and kumiki-wait alone compile. (What else is reported \
     follows from this.)"
);

mod area;
pub mod backend;
mod claim;
mod config;
mod core;
mod cost;
mod differences;
mod engine;
mod error;
mod execute;
mod finished;
#[cfg(any(test, fuzzing))]
mod garbage;
mod lane;
#[cfg(all(test, loom))]
mod loom;
mod offer;
mod open;
mod pending;
mod primitive;
mod requester;
mod side;
mod slot;
mod threads;
mod ticket;
#[cfg(all(test, not(loom)))]
mod uapi;

/// The names by which the engine has them.
mod request {
    pub(crate) use kumiki_calls::Request;
}
mod kind {
    pub(crate) use kumiki_calls::{Contends, kind, may_sleep};
}
mod callset {
    pub(crate) use kumiki_calls::{CallSet, NUMBERS};
}
mod allow {
    pub(crate) use kumiki_calls::AllowList;
}

pub use backend::Backend;
pub use config::Config;
pub use engine::Engine;
pub use error::{Error, Result};
#[cfg(fuzzing)]
pub use garbage::serve_garbage;
pub use kumiki_calls::op::{self, Operation};
pub use kumiki_calls::{
    AllowError, AllowList, Contends, Kind, Place, Refusal, RefusalKind, Request, default_place,
    kind, may_sleep, refusal, refusal_of, refusals,
};
pub use kumiki_sys::cpuset::CpuSet;
pub use kumiki_wait::{Policy, Relax, Sleep, Threshold};
pub use pending::{Completed, Failed, Outcome, Pending};
pub use requester::Requester;
pub use ticket::Ticket;
