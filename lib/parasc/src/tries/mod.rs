//! Trying a call first: made at once where it need not sleep, handed over where it would.
//!
//! ```text
//!  attempt(operation)
//!     │ its form that cannot sleep (way.rs)     none: CannotTry ────────────────┐
//!     │ has its file system refused before (refused.rs)?  yes ──────────────────┤
//!     ▼                                                                         ▼
//!  made here, by the calling thread ── EAGAIN, or a part only ──► submitted, to a thread that
//!     │                             ── "not here" ──────────────►  may sleep: the plain call
//!     ▼                                                            Pending: a future
//!  Completed
//! ```
//!
//! A program that waits for many things at once, by epoll or as futures, must not sleep in a
//! call for one of them. Most calls on files do not sleep, as what they need is in memory; but
//! nobody knows which before, and a file's descriptor is always ready to epoll. So each call is
//! tried in a form in which the kernel gives up where it would sleep, and only what it gives up
//! is handed over. A cheap call costs what it costs plainly, and no slow one holds up the rest.
//!
//! | call | its form that cannot sleep |
//! |---|---|
//! | `read`, `pread`, `preadv2` | `preadv2` with `RWF_NOWAIT` |
//! | `pwrite`, `pwritev2` | `pwritev2` with `RWF_NOWAIT` |
//! | `openat`, `openat2` with `O_NONBLOCK`, `O_DIRECTORY` or `O_PATH`, that make no file | `openat2` with `RESOLVE_CACHED` |
//! | `recv`, `recvfrom`, `recvmsg`, `send`, `sendto`, `sendmsg` | `MSG_DONTWAIT` |
//! | `accept4` on a socket with `O_NONBLOCK` | as it is |
//! | `statx` of a descriptor, on a file system that asks no server | `AT_STATX_DONT_SYNC` |
//! | `getppid`, `getsockname`, `getpeername`, `getsockopt`, `epoll_ctl` | as they are |
//! | every other | none: [`CannotTry`] says why; it is submitted |
//!
//! `AT_STATX_DONT_SYNC` does not help a `statx` of a path: the walk along the path may sleep
//! all the same. Open the file with `O_PATH` and ask its descriptor, which
//! [`OpenRead`] does.
//!
//! # Answers
//! A read that gives fewer bytes than it has room for, and is not at the file's end, is handed
//! over as a whole: by its offset it gives the same bytes again. So is a short write, unless
//! the file was opened with `O_APPEND`. At the file's own position (`read`) and on sockets a
//! short result is the result, as what was moved is not put back: of a file of which only the
//! beginning is in memory `read` gives that part, where the plain call would go on to the disk. A socket with `O_NONBLOCK`
//! answers `EAGAIN` itself, and that is the answer.
//!
//! # Limits
//! The kernel's forms are as good as they are: a filesystem's own `open` may ask a server (FUSE,
//! NFS) though the name was in the cache, unless it is [looked at first](OpenRead::look_first);
//! memory may have to be freed; and a read of a file
//! with `O_DIRECT` waits for the disk, which is found out by the first one that takes long:
//! from then on each descriptor is asked for that flag. Linux 5.9 and 5.10 may answer 0 where
//! the file does not end (preadv2(2), BUGS): there a 0 is looked into by the plain call.

mod attempt;
mod completions;
mod local;
#[cfg(all(test, loom))]
mod loom;
mod made;
mod open_read;
mod refused;
mod way;

pub use attempt::{Attempt, NotMade, attempt};
pub use completions::{Completions, Key};
pub use local::asks_nobody;
pub use open_read::{OpenRead, OpenReadError, Opened, Step};
pub use way::CannotTry;
