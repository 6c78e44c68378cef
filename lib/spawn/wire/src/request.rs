//! What library and server say to each other: a request in memory that both see.
//!
//! ```text
//! library                              server
//!  starts it                            looks who has started it
//!  wakes ◀──────────────────────────── state = READY
//!  writes the request, state = ASKED
//!  descriptors in messages, bell ────▶ state = TAKEN
//!                                      looks who asks; if that is another one:
//!  wakes ◀──────────────────────────── state = ANOTHER
//!                                      clone3: the kernel writes `pid`
//!  wakes, writes the maps ◀────────────── child: state = MAPS, if it is to have some
//!  state = TAKEN ──────────────────────▶ child: the other steps, then execve, or `errno`
//!  wakes ◀──────────────────────────── the kernel: state = DONE (0)
//! ```
//!
//! The kernel answers when the child has another memory, or has ended (CLONE_CHILD_CLEARTID):
//! the server need not run between the child and the caller. It answers itself where there
//! is no child.
//!
//! One request at a time. A server that dies leaves a state that tells what to do:
//! `ASKED`, nothing has begun, and the next server may be asked; `TAKEN` with a `pid`,
//! the child is there and goes on without it; `TAKEN` without one, nothing was made.
//! The kernel writes `pid` before the child runs (CLONE_PARENT_SETTID).
//!
//! What the child does before it executes its program is a list of steps, which the library has
//! written and the child carries out one by one, on a table of descriptors of its own: the server
//! knows none of them.
//!
//! **Descriptors.** A step names one by its *number*, as the child has it at that moment, or by
//! its *place*: where the maker has it, which the child may move. Places 0 to 3 are what a server
//! can take itself, the others what messages bring, in their order; where the calling thread makes
//! the child itself they are its own numbers. [`PUT`] gives what is at a place a number. Whatever
//! else has that number and is at a place still to be used moves out of its way first, so no number
//! is the server's own, and none is forbidden. A place is used once.
//!
//! A child begins with the maker's table. That of the calling thread is what it is to have. That of
//! a server is not: all of it is closed by exec, and before file actions by [`CLOSE_ALL`], so that
//! they find what the caller has and nothing else.

use core::sync::atomic::{AtomicI32, AtomicU32};

/// The answer is complete; nothing is asked. The kernel writes this.
pub const DONE: u32 = 0;
/// The request is complete.
pub const ASKED: u32 = 1;
/// The server has it.
pub const TAKEN: u32 = 2;
/// The server is not for who has asked.
pub const ANOTHER: u32 = 3;
/// The server begins.
pub const STARTS: u32 = 4;
/// The server knows who has started it.
pub const READY: u32 = 5;
/// Nothing was made: what [`Header::own`] names has to be sent.
pub const SEND: u32 = 6;
/// The child waits for the maps of its user namespace.
pub const MAPS: u32 = 7;

/// Value of [`Header::bell`]: the server sleeps at the socket, where a message wakes it.
pub const AT_SOCKET: u32 = 0;
/// The server looks at the bell before it sleeps, and sleeps there.
pub const AT_BELL: u32 = 1;
/// State of the bell: there may be a request.
pub const RUNG: u32 = 2;

/// Bytes that both see: of the header and what strings a request has. The kernel takes a
/// quarter of the stack's limit for them at most, 2 MiB in most programs, 6 MiB in any.
pub const BYTES: usize = 8 << 20;
/// Offset at which steps, pointers and strings begin.
pub const DATA: usize = 4096;
/// Address at which the server has the memory, so that the library can write its pointers. Nothing
/// else of so small a program is there: its own pages are far below, the stack far above.
pub const BASE: usize = 0x1000_0000_0000;
/// Descriptors of one message, as many as the kernel takes (SCM_MAX_FD, include/net/scm.h). A
/// request has as many messages as it needs.
pub const FDS: usize = 253;
/// Places of what the server takes itself, in a step's arguments: the caller's descriptors 0,
/// 1 and 2, and then its working folder.
pub const OWN: usize = 0;
/// The caller's working folder is the last of them.
pub const FOLDER: usize = OWN + 3;
/// Places of what messages bring begin here.
pub const SENT: usize = FOLDER + 1;
/// Most places of a request: a step for each more than fills the memory.
pub const PLACES: usize = 1 << 18;

/// Numbers by which the thread that asks tells of itself.
pub const TOLD: usize = 9;

/// The beginning of the shared memory.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// State of the request.
    pub state: AtomicU32,
    /// The child; 0 until there is one. A failed one is there too, to be waited for.
    pub pid: AtomicI32,
    /// Error for which it does not run; 0 if it does.
    pub errno: AtomicI32,
    /// [`Step::what`] of what was refused. Tells nothing without `errno`.
    pub failed: AtomicU32,
    /// Bell at which the server sleeps.
    pub bell: AtomicU32,
    /// 1: the server has copies of the caller's standard descriptors, and can tell whether
    /// they still are what the caller has.
    pub holds: AtomicU32,
    /// Number of the request, which its message has too: one that was late is for no other.
    pub number: u32,
    /// Descriptors in the request's messages; 0: if there is one it only wakes.
    pub sent: u32,
    /// Bit n: the server takes the one with place [`OWN`] + n itself.
    pub own: u32,
    /// Places in the message, and 1, of the caller's own standard descriptors, for the server
    /// to keep for a while; 0: it is not there.
    pub brings: [u32; 3],
    /// The thread that has started the server; then the one that asks.
    pub thread: i32,
    /// Words that nobody else can see of it, such as its securebits (prctl(2)).
    pub told: [u64; TOLD],
    /// 1: the first request is by the thread that has started the server, which does nothing
    /// between. 0: it is looked at as all others are.
    pub at_once: u32,
    /// 1: no child is wanted, only whether the server is for who asks.
    pub only_look: u32,
    /// 1: the server sends a byte once it has served, for who waits at the socket.
    pub tells: u32,
    /// Flags of clone3(2) beside the server's own: namespaces, a cgroup.
    pub clone_flags: u64,
    /// Place of the cgroup, if `clone_flags` say that there is one.
    pub cgroup: u32,
    /// Number of steps.
    pub steps: u32,
    /// Number of programs, to be tried in order.
    pub programs: u32,
    /// Address of the first step.
    pub step: u64,
    /// Address of pointers to the programs.
    pub program: u64,
    /// Address of pointers to arguments, a null at the end.
    pub argv: u64,
    /// Address of pointers to variables, a null at the end.
    pub envp: u64,
    /// Addresses of the texts of uid_map and gid_map; 0: there is none.
    pub maps: [u64; 2],
    /// The outcome of writing them: 0, or an error number below it.
    pub mapped: AtomicI32,
    /// Place of the program, and 1; 0 if `programs` name it.
    pub image: u32,
    /// Signals that the calling thread blocks.
    pub mask: u64,
}

/// A step of the child's, carried out in order. One that is refused ends it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// A system call's number, or one of those below.
    pub call: u32,
    /// Bit n: argument n is a descriptor's place. [`MAY_FAIL`].
    pub flags: u32,
    /// Tells the library what was refused; the child only hands it back.
    pub what: u32,
    /// 0.
    pub unused: u32,
    /// Arguments of the call.
    pub args: [u64; 4],
}

/// Bit of [`Step::flags`]: if it is refused the child goes on.
pub const MAY_FAIL: u32 = 1 << 31;

/// The first number that is no system call's.
const FIRST: u32 = 1 << 16;
/// Sets the caller's limits where the maker has others. What may not be raised stays lower.
pub const CALLERS_LIMITS: u32 = FIRST;
/// Refused (ESRCH) if the parent is another one than the maker's. The first argument, less 1, is the
/// place of its pidfd, for a child in a pid namespace that the parent is not in; 0: there is none.
pub const PARENT_LIVES: u32 = FIRST + 1;
/// Joins the caller's process group where that is not the maker's.
pub const CALLERS_GROUP: u32 = FIRST + 2;
/// Takes the cpus of the thread that asks.
pub const CALLERS_CPUS: u32 = FIRST + 3;
/// Blocks the signals that the thread that asks blocks.
pub const CALLERS_MASK: u32 = FIRST + 4;
/// Has the library write the maps of the child's user namespace, which only who is outside of
/// it may.
pub const MAPPED: u32 = FIRST + 5;
/// A place, a number, and whether exec closes it: gives the descriptor that number.
pub const PUT: u32 = FIRST + 6;
/// A number, a path, open(2)'s flags and mode: opens a file as that descriptor.
pub const OPEN: u32 = FIRST + 7;
/// Two numbers: copies a descriptor, or has exec keep it where both are the same.
pub const COPY: u32 = FIRST + 8;
/// A number, which is free then.
pub const CLOSE: u32 = FIRST + 9;
/// The first and the last number: all of these are free then.
pub const CLOSE_ALL: u32 = FIRST + 10;
/// The first and the last number: exec closes them.
pub const CLOSE_AT_EXEC: u32 = FIRST + 11;
/// A number of a terminal, whose foreground group becomes the child's own.
pub const FOREGROUND: u32 = FIRST + 12;

/// Value of [`Header::failed`]: the program.
pub const EXECUTE: u32 = u32::MAX;
/// Value of [`Header::failed`]: the child itself.
pub const MAKE: u32 = u32::MAX - 1;

const _: () = assert!(size_of::<Header>() <= DATA && size_of::<Step>() == 48);
