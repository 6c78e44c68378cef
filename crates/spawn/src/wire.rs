//! What library and server say to each other: a request in memory that both see.
//!
//! ```text
//! library                              server
//!  writes the request, state = ASKED
//!  message with the descriptors ─────▶ state = TAKEN
//!                                      clone3: the kernel writes `pid`
//!                                      child: descriptors, folder, …, execve
//!                                      the child runs, or has failed: `errno`
//!  wakes ◀──────────────────────────── state = DONE
//! ```
//!
//! One request at a time. A server that dies leaves a state that tells what to do:
//! `ASKED`, nothing has begun, and the next server may be asked; `TAKEN` with a `pid`,
//! the child is there and goes on without it; `TAKEN` without one, nothing was made.
//! The kernel writes `pid` before the child runs (CLONE_PARENT_SETTID).

use core::sync::atomic::{AtomicI32, AtomicU32};

/// Nothing is asked.
pub(crate) const IDLE: u32 = 0;
/// The request is complete.
pub(crate) const ASKED: u32 = 1;
/// The server has it.
pub(crate) const TAKEN: u32 = 2;
/// The answer is complete.
pub(crate) const DONE: u32 = 3;

/// Bytes that both see: of the header and what strings a request has. The kernel takes a
/// quarter of the stack's limit for them at most, 2 MiB in most programs, 6 MiB in any.
pub(crate) const BYTES: usize = 8 << 20;
/// Where the strings begin.
pub(crate) const DATA: usize = 4096;
/// 64 cpus each; as many as any kernel for x86-64 knows.
pub(crate) const CPU_WORDS: usize = 128;

/// The beginning of the shared memory.
#[repr(C)]
pub(crate) struct Header {
    /// Where the request is.
    pub(crate) state: AtomicU32,
    /// The child; 0 until there is one. A failed one is there too, to be waited for.
    pub(crate) pid: AtomicI32,
    /// Why it does not run; 0 if it does.
    pub(crate) errno: AtomicI32,
    /// Bit n: descriptor n of the child is the next one of the message, which begins with
    /// the working folder. Others of 0 to 2 are closed.
    pub(crate) standard: u32,
    /// The process group that the child joins; 0 for one of its own.
    pub(crate) group: i32,
    /// 1 if that was asked for; 0 if it is the caller's.
    pub(crate) group_is_asked: u32,
    /// Strings, each with a zero at its end, from [`DATA`] on: programs to try, arguments,
    /// environment.
    pub(crate) programs: u32,
    /// How many arguments.
    pub(crate) args: u32,
    /// How many variables.
    pub(crate) env: u32,
    /// Bytes of all strings.
    pub(crate) bytes: u32,
    /// A new folder follows the strings: relative ones from the caller's.
    pub(crate) has_folder: u32,
    /// Words of the cpus on which it may run.
    pub(crate) cpu_words: u32,
    /// The cpus.
    pub(crate) cpus: [u64; CPU_WORDS],
}

const _: () = assert!(size_of::<Header>() <= DATA);
