//! Operations: system calls with typed arguments and results.
//!
//! The same operations serve batches and futures. An operation that borrows its
//! descriptor, name and buffer suits a batch, which blocks until it is done; one that
//! owns them is `Send + 'static`, can be awaited as a future, and may outlive the
//! function that made it.
//!
//! ```text
//!   new(descriptor, name, buffer, …)      moved freely
//!        │ request()                      pointers are taken: stay where you are
//!   Request ──► some thread makes the call
//!        │ complete(ret_val)              result; moved freely again
//!   Output, and what arrived in the operation: filled(), stat(), entries()
//! ```
//!
//! - *Descriptors* are anything with [`AsFd`](std::os::fd::AsFd): `&File`,
//!   `BorrowedFd`, `Arc<OwnedFd>`, and [`CWD`] where a call takes a directory.
//! - *Names* are anything with `AsRef<CStr>`: `c"etc"`, `&CStr`, `CString`;
//!   [`path::terminated`] makes one of a [`Path`](std::path::Path).
//! - *Buffers* that a call reads are anything with `AsRef<[u8]>`; those that it
//!   fills are a [`BufferMut`]. Several at once are a vector of them.
//! - *Flags* and the like are rustix's, re-exported here; where two types share a name,
//!   each is named after its call, as [`EpollCreateFlags`].
//! - *Results* are the kernel's, unchanged: no call is retried after `EINTR` or `EAGAIN`,
//!   and a short read or write is a result.
//!
//! Between request and completion an operation must not be moved, since the request may
//! point into it: code that executes operations keeps them borrowed or boxed meanwhile.
//! Afterwards an operation may be requested again: same call, same buffers.

#[macro_use]
mod define;

pub mod buffer;
pub mod path;

mod address;
mod aligned;
mod asked;
mod attr;
mod control;
mod copy;
mod dir;
mod epoll;
mod event;
mod file;
mod fstatat;
mod getdents;
mod io;
mod lock;
mod memory;
mod message;
mod mincore;
mod misc;
mod output;
mod pair;
mod process;
mod ranges;
mod raw;
mod socket;
mod sockname;
mod sockopt;
mod statx;
mod sync;
mod time;
mod vectored;
mod xattr;

pub use aligned::Aligned;
pub use asked::*;
pub use attr::{Faccessat2, Fchmod, Fchmodat, Fchownat, Fstatfs, Futimens, Statfs, Utimensat};
pub use buffer::BufferMut;
pub use copy::{CopyFileRange, Sendfile, Splice};
pub use dir::{Linkat, Mkdirat, Mknodat, Readlinkat, Renameat2, Symlinkat, Unlinkat};
pub use epoll::{EpollCreate1, EpollCtl, EpollWait};
pub use event::{InotifyAddWatch, InotifyInit1, InotifyRmWatch, Poll};
pub use file::{Close, Fadvise, Fallocate, Ftruncate, Lseek, Openat, Openat2, Truncate};
pub use fstatat::Fstatat;
pub use getdents::{DirectoryEntry, Entries, Getdents64};
pub use io::{Pread, Pwrite, Read, Write};
pub use lock::{Flock, LockKind, OfdGetlk, OfdSetlk, RangeLock};
pub use memory::{Madvise, MemfdCreate, Mlock2, Mmap, Mprotect, Mremap, Msync, Munlock, Munmap};
pub use message::{Recvmsg, Sendmsg};
pub use mincore::Mincore;
pub use misc::{Getrandom, Ioctl};
pub use pair::{Pipe2, Socketpair};
pub use process::{Getppid, ProcessVmReadv, ProcessVmWritev};
pub use raw::{Raw, raw};
pub use socket::{
    Accept4, Bind, Connect, Listen, Recv, Recvfrom, Send, Sendto, ShutdownSocket, Socket,
};
pub use sockname::{Getpeername, Getsockname};
pub use sockopt::{Getsockopt, Setsockopt};
pub use statx::{Attributes, Statx};
pub use sync::{Fdatasync, Fsync, SyncFileRange, Syncfs};
pub use time::{ClockNanosleep, Nanosleep};
pub use vectored::{Preadv2, Pwritev2, Readv, Writev};
pub use xattr::{
    Fgetxattr, Flistxattr, Fremovexattr, Fsetxattr, Getxattr, Lgetxattr, Listxattr, Llistxattr,
    Lremovexattr, Lsetxattr, Removexattr, Setxattr,
};

use crate::request::{Request, call};

/// A system call with what it needs: descriptors, buffers, names.
///
/// # Safety
/// From [`request`](Self::request) until [`complete`](Self::complete) every
/// pointer in the request must stay valid for what the kernel reads and writes
/// through it, as long as the operation is neither moved, nor dropped, nor
/// otherwise touched; the memory it writes to must belong to the operation (or
/// be borrowed mutably by it). The call must do no harm that safe code could
/// not do, on whichever thread it runs.
pub unsafe trait Operation {
    /// The result of the call.
    type Output;

    /// The call to make. Pointers may point into `self`.
    ///
    /// The executor of the call must [complete](Self::complete) the operation, even if
    /// something panics meanwhile: only then does the operation know that the call was
    /// made and has consumed what it consumes ([`Close`]).
    fn request(&mut self) -> Request;

    /// Turns what the kernel returned (a result or `-errno`) into the output.
    ///
    /// # Safety
    /// The kernel returned `ret_val` for the last [`request`](Self::request), the
    /// operation has not moved since, and `complete` is called once for it. Otherwise
    /// uninitialised memory could be read, or a descriptor of other code be owned.
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output;

    /// Makes the call on the calling thread, without an engine and its allow-list.
    ///
    /// ```
    /// use kumiki_calls::op::{Getppid, Operation};
    ///
    /// assert_eq!(Getppid::new().call(), Ok(std::os::unix::process::parent_id() as i32));
    /// ```
    #[inline]
    fn call(&mut self) -> Self::Output {
        let request = self.request();
        // SAFETY: the operation vouches for its call, and is borrowed for it.
        let result = unsafe { call(&request) };
        // SAFETY: the result of this operation's call, made just now.
        unsafe { self.complete(result) }
    }
}
