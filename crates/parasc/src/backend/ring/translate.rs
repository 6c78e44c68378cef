//! A system call as an entry of io_uring's submission queue, where the two mean
//! the same.
//!
//! What io_uring has, but not with the meaning of the system call, and is
//! therefore made plain:
//!
//! | call | what io_uring does |
//! |---|---|
//! | read, write, readv, writev; position -1 | moves the file's position without its lock: two at once may get the same bytes |
//! | pread, pwrite and their vectors on what is no file on a disk | reads a pipe or socket where the call says `ESPIPE` |
//! | open without `O_NONBLOCK`, done at once | does not wait for a FIFO's other end. So these are given to a worker at once, which opens as the call does |
//! | send, recv without `MSG_DONTWAIT`; accept, connect | waits whatever `O_NONBLOCK` and the socket's time limits say |
//! | send without `MSG_NOSIGNAL` | gives no `SIGPIPE` |
//! | sendmsg, recvmsg | control messages are refused by some kernels, and a message's header would have to be read here |
//! | socket, pipe | takes the descriptor first: another error if both fail |
//! | nanosleep, futex, waitid, epoll_wait | are not ended by a signal |
//!
//! A length that does not fit io_uring's 32 bits, and flags that a call does not
//! know, are made plain too. Of a request with two faults io_uring may find the
//! other one first; most errors are therefore confirmed by the plain call
//! (`is_undone`).

use std::ffi::c_char;

use io_uring::opcode::*;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{Probe, opcode};
use kumiki_sys::syscall;
use syscalls::Sysno;

use crate::callset::{CallSet, NUMBERS};
use crate::request::Request;

/// Bytes that one call transfers at most (`MAX_RW_COUNT`, include/linux/fs.h).
const MOST_BYTES: u64 = 0x7fff_f000;
/// Parts that a vector has at most (`UIO_MAXIOV`, include/uapi/linux/uio.h).
const MOST_PARTS: u64 = 1024;
/// `struct open_how` of its first version.
const OPEN_HOW_BYTES: u64 = 24;

// Flags that the calls know. With others they fail, and the plain call says how.
/// `RWF_DSYNC`, `RWF_SYNC`, `RWF_APPEND`.
const RW_FLAGS: u64 = 0x2 | 0x4 | 0x10;
const SPLICE_FLAGS: u64 = 0xf;
const SYNC_FLAGS: u64 = 0x7;
const RENAME_FLAGS: u64 = 0x7;
/// `XATTR_CREATE`, `XATTR_REPLACE`.
const XATTR_FLAGS: u64 = 0x3;
const LINK_FLAGS: u64 = (libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) as u64;
const UNLINK_FLAGS: u64 = libc::AT_REMOVEDIR as u64;
/// Without `AT_STATX_DONT_SYNC`, which excludes another.
const STATX_FLAGS: u64 = (libc::AT_SYMLINK_NOFOLLOW
    | libc::AT_NO_AUTOMOUNT
    | libc::AT_EMPTY_PATH
    | libc::AT_STATX_FORCE_SYNC) as u64;
/// All but the reserved bit.
const STATX_MASK: u64 = 0x7fff_ffff;

/// An open with one of these never waits for the other end of a FIFO.
const OPENS_AT_ONCE: i32 = libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_PATH;

/// What one call takes, in parts of a plain one.
const AT_ONCE: f32 = 0.9;
/// Given to a worker thread of the kernel, always: two switches for a cheap call.
const BY_WORKER: f32 = 2.0;
/// By a worker too, but waiting for the device is what it is for.
const WAITS: f32 = 0.25;

/// Calls with an operation of the same meaning, and what to expect of them.
const CALLS: &[(Sysno, u8, f32)] = &[
    (Sysno::pread64, Read::CODE, AT_ONCE),
    (Sysno::pwrite64, Write::CODE, AT_ONCE),
    (Sysno::preadv, Readv::CODE, AT_ONCE),
    (Sysno::pwritev, Writev::CODE, AT_ONCE),
    (Sysno::preadv2, Readv::CODE, AT_ONCE),
    (Sysno::pwritev2, Writev::CODE, AT_ONCE),
    (Sysno::fsync, Fsync::CODE, WAITS),
    (Sysno::fdatasync, Fsync::CODE, WAITS),
    (Sysno::sync_file_range, SyncFileRange::CODE, WAITS),
    (Sysno::openat, OpenAt::CODE, BY_WORKER),
    (Sysno::openat2, OpenAt2::CODE, BY_WORKER),
    (Sysno::close, Close::CODE, AT_ONCE),
    (Sysno::statx, Statx::CODE, BY_WORKER),
    (Sysno::fallocate, opcode::Fallocate::CODE, BY_WORKER),
    (Sysno::ftruncate, Ftruncate::CODE, BY_WORKER),
    (Sysno::fadvise64, Fadvise::CODE, BY_WORKER),
    (Sysno::madvise, Madvise::CODE, BY_WORKER),
    (Sysno::unlinkat, UnlinkAt::CODE, BY_WORKER),
    (Sysno::unlink, UnlinkAt::CODE, BY_WORKER),
    (Sysno::rmdir, UnlinkAt::CODE, BY_WORKER),
    (Sysno::renameat2, RenameAt::CODE, BY_WORKER),
    (Sysno::renameat, RenameAt::CODE, BY_WORKER),
    (Sysno::rename, RenameAt::CODE, BY_WORKER),
    (Sysno::mkdirat, MkDirAt::CODE, BY_WORKER),
    (Sysno::mkdir, MkDirAt::CODE, BY_WORKER),
    (Sysno::symlinkat, SymlinkAt::CODE, BY_WORKER),
    (Sysno::symlink, SymlinkAt::CODE, BY_WORKER),
    (Sysno::linkat, LinkAt::CODE, BY_WORKER),
    (Sysno::link, LinkAt::CODE, BY_WORKER),
    (Sysno::getxattr, GetXattr::CODE, BY_WORKER),
    (Sysno::setxattr, SetXattr::CODE, BY_WORKER),
    (Sysno::fgetxattr, FGetXattr::CODE, BY_WORKER),
    (Sysno::fsetxattr, FSetXattr::CODE, BY_WORKER),
    (Sysno::epoll_ctl, EpollCtl::CODE, AT_ONCE),
    (Sysno::sendto, Send::CODE, AT_ONCE),
    (Sysno::recvfrom, Recv::CODE, AT_ONCE),
    (Sysno::shutdown, Shutdown::CODE, BY_WORKER),
    (Sysno::splice, Splice::CODE, BY_WORKER),
    (Sysno::tee, Tee::CODE, BY_WORKER),
];

/// [`CALLS`] by number; 0 for the others.
static GUESSES: [f32; NUMBERS] = {
    let mut guesses = [0.0; NUMBERS];
    let mut i = 0;
    while i < CALLS.len() {
        guesses[CALLS[i].0 as usize] = CALLS[i].2;
        i += 1;
    }
    guesses
};

/// What the call takes through io_uring, in parts of a plain one; `None` if it
/// is none of [`CALLS`].
#[inline]
pub(crate) fn guess(sysnum: u16) -> Option<f32> {
    GUESSES.get(usize::from(sysnum)).copied().filter(|guess| *guess > 0.0)
}

/// The calls whose operations the kernel has.
pub(super) fn available(probe: &Probe) -> CallSet {
    let there = CALLS.iter().filter(|(_, code, _)| probe.is_supported(*code));
    there.fold(CallSet::EMPTY, |calls, (call, ..)| calls.with(*call as u16))
}

/// What is known of the descriptors of a batch.
#[derive(Debug, Default)]
pub(super) struct Files {
    last: Option<(i32, bool)>,
}

impl Files {
    /// Whether this is a file with contents, or a disk: what has positions, and
    /// never lets a reader wait for a writer. Files of /proc look regular, are
    /// empty, and some refuse positions; so do empty files not count.
    fn has_positions(&mut self, fd: i32) -> bool {
        match self.last {
            Some((last, answer)) if last == fd => answer,
            _ => {
                let answer = ask(fd);
                self.last = Some((fd, answer));
                answer
            }
        }
    }
}

fn ask(fd: i32) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    let args = [fd as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: fstat writes one `struct stat`, for any descriptor or none.
    if unsafe { syscall::raw(libc::SYS_fstat as usize, args) } != 0 {
        return false;
    }
    // SAFETY: it has filled it.
    let stat = unsafe { stat.assume_init() };
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => stat.st_size > 0,
        libc::S_IFBLK => true,
        _ => false,
    }
}

/// The entry that means the same as `request`, if there is one.
pub(super) fn translate(request: &Request, files: &mut Files) -> Option<Entry> {
    let call = Sysno::new(usize::from(request.sysnum))?;
    let arg = |at: usize| if at < usize::from(request.args_num) { request.args[at] } else { 0 };
    let int = |at: usize| arg(at) as i32;
    let fd = |at: usize| Fd(int(at));
    let path = |at: usize| arg(at) as *const c_char;
    let here = Fd(libc::AT_FDCWD);
    // The kernel takes a `umode_t` of 16 bits.
    let mode = |at: usize| u32::from(arg(at) as u16);
    let small = |at: usize| u32::try_from(arg(at)).ok();
    let bytes = |at: usize| (arg(at) <= MOST_BYTES).then_some(arg(at) as u32);
    let parts = |at: usize| (arg(at) <= MOST_PARTS).then_some(arg(at) as u32);
    // -1 would be the file's own position.
    let position = |at: usize| (arg(at) as i64 >= 0).then_some(arg(at));
    let mut positioned = |at: usize| files.has_positions(int(at)).then_some(fd(at));
    let flags = |at: usize, known: u64| (arg(at) & !known == 0).then_some(arg(at));
    Some(match call {
        Sysno::pread64 => {
            Read::new(positioned(0)?, arg(1) as *mut u8, bytes(2)?).offset(position(3)?).build()
        }
        Sysno::pwrite64 => {
            Write::new(positioned(0)?, arg(1) as *const u8, bytes(2)?).offset(position(3)?).build()
        }
        Sysno::preadv => Readv::new(positioned(0)?, arg(1) as *const libc::iovec, parts(2)?)
            .offset(position(3)?)
            .build(),
        Sysno::pwritev => Writev::new(positioned(0)?, arg(1) as *const libc::iovec, parts(2)?)
            .offset(position(3)?)
            .build(),
        Sysno::preadv2 => Readv::new(positioned(0)?, arg(1) as *const libc::iovec, parts(2)?)
            .offset(position(3)?)
            .rw_flags(flags(5, RW_FLAGS)? as _)
            .build(),
        Sysno::pwritev2 => Writev::new(positioned(0)?, arg(1) as *const libc::iovec, parts(2)?)
            .offset(position(3)?)
            .rw_flags(flags(5, RW_FLAGS)? as _)
            .build(),
        Sysno::fsync => Fsync::new(fd(0)).build(),
        Sysno::fdatasync => Fsync::new(fd(0)).flags(FsyncFlags::DATASYNC).build(),
        Sysno::sync_file_range => SyncFileRange::new(fd(0), small(2)?)
            .offset(arg(1))
            .flags(flags(3, SYNC_FLAGS)? as u32)
            .build(),
        Sysno::openat => {
            let entry = OpenAt::new(fd(0), path(1)).flags(int(2)).mode(mode(3)).build();
            let at_once = int(2) & OPENS_AT_ONCE != 0;
            if at_once { entry } else { entry.flags(Flags::ASYNC) }
        }
        // Its flags are in memory, which only the kernel may look at safely.
        Sysno::openat2 if arg(3) == OPEN_HOW_BYTES => {
            OpenAt2::new(fd(0), path(1), arg(2) as *const _).build().flags(Flags::ASYNC)
        }
        Sysno::close => Close::new(fd(0)).build(),
        // Without a path it is the descriptor's own, which io_uring does not know.
        Sysno::statx if arg(1) != 0 => Statx::new(fd(0), path(1), arg(4) as *mut _)
            .flags(flags(2, STATX_FLAGS)? as i32)
            .mask(flags(3, STATX_MASK)? as u32)
            .build(),
        Sysno::fallocate => {
            opcode::Fallocate::new(fd(0), arg(3)).offset(arg(2)).mode(int(1)).build()
        }
        Sysno::ftruncate => Ftruncate::new(fd(0), arg(1)).build(),
        Sysno::fadvise64 => {
            Fadvise::new(fd(0), i64::from(small(2)?), int(3)).offset(arg(1)).build()
        }
        Sysno::madvise => Madvise::new(arg(0) as *const _, i64::from(small(1)?), int(2)).build(),
        Sysno::unlinkat => {
            UnlinkAt::new(fd(0), path(1)).flags(flags(2, UNLINK_FLAGS)? as i32).build()
        }
        Sysno::unlink => UnlinkAt::new(here, path(0)).build(),
        Sysno::rmdir => UnlinkAt::new(here, path(0)).flags(libc::AT_REMOVEDIR).build(),
        Sysno::renameat2 => RenameAt::new(fd(0), path(1), fd(2), path(3))
            .flags(flags(4, RENAME_FLAGS)? as u32)
            .build(),
        Sysno::renameat => RenameAt::new(fd(0), path(1), fd(2), path(3)).build(),
        Sysno::rename => RenameAt::new(here, path(0), here, path(1)).build(),
        Sysno::mkdirat => MkDirAt::new(fd(0), path(1)).mode(mode(2)).build(),
        Sysno::mkdir => MkDirAt::new(here, path(0)).mode(mode(1)).build(),
        Sysno::symlinkat => SymlinkAt::new(fd(1), path(0), path(2)).build(),
        Sysno::symlink => SymlinkAt::new(here, path(0), path(1)).build(),
        Sysno::linkat => {
            LinkAt::new(fd(0), path(1), fd(2), path(3)).flags(flags(4, LINK_FLAGS)? as i32).build()
        }
        Sysno::link => LinkAt::new(here, path(0), here, path(1)).build(),
        Sysno::getxattr => GetXattr::new(path(1), arg(2) as *mut _, path(0), small(3)?).build(),
        Sysno::setxattr => SetXattr::new(path(1), arg(2) as *const _, path(0), small(3)?)
            .flags(flags(4, XATTR_FLAGS)? as i32)
            .build(),
        Sysno::fgetxattr => FGetXattr::new(fd(0), path(1), arg(2) as *mut _, small(3)?).build(),
        Sysno::fsetxattr => FSetXattr::new(fd(0), path(1), arg(2) as *const _, small(3)?)
            .flags(flags(4, XATTR_FLAGS)? as i32)
            .build(),
        Sysno::epoll_ctl => EpollCtl::new(fd(0), fd(2), int(1), arg(3) as *const _).build(),
        Sysno::sendto if arg(4) == 0 => {
            let known = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u64;
            let flags = flags(3, known).filter(|flags| *flags == known)?;
            Send::new(fd(0), arg(1) as *const u8, bytes(2)?).flags(flags as i32).build()
        }
        Sysno::recvfrom if arg(4) == 0 => {
            let known = libc::MSG_DONTWAIT | libc::MSG_PEEK;
            let flags = flags(3, known as u64)? as i32;
            let waits = flags & libc::MSG_DONTWAIT == 0;
            return (!waits)
                .then_some(Recv::new(fd(0), arg(1) as *mut u8, bytes(2)?).flags(flags).build());
        }
        Sysno::shutdown => Shutdown::new(fd(0), int(1)).build(),
        // Positions of its own would have to be read and written here.
        Sysno::splice if arg(1) == 0 && arg(3) == 0 => Splice::new(fd(0), -1, fd(2), -1, small(4)?)
            .flags(flags(5, SPLICE_FLAGS)? as u32)
            .build(),
        Sysno::tee => {
            Tee::new(fd(0), fd(1), small(2)?).flags(flags(3, SPLICE_FLAGS)? as u32).build()
        }
        _ => return None,
    })
}
