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

use crate::callset::CallSet;
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

/// Calls with an operation of the same meaning.
const CALLS: &[(Sysno, u8)] = &[
    (Sysno::pread64, Read::CODE),
    (Sysno::pwrite64, Write::CODE),
    (Sysno::preadv, Readv::CODE),
    (Sysno::pwritev, Writev::CODE),
    (Sysno::preadv2, Readv::CODE),
    (Sysno::pwritev2, Writev::CODE),
    (Sysno::fsync, Fsync::CODE),
    (Sysno::fdatasync, Fsync::CODE),
    (Sysno::sync_file_range, SyncFileRange::CODE),
    (Sysno::openat, OpenAt::CODE),
    (Sysno::openat2, OpenAt2::CODE),
    (Sysno::close, Close::CODE),
    (Sysno::statx, Statx::CODE),
    (Sysno::fallocate, opcode::Fallocate::CODE),
    (Sysno::ftruncate, Ftruncate::CODE),
    (Sysno::fadvise64, Fadvise::CODE),
    (Sysno::madvise, Madvise::CODE),
    (Sysno::unlinkat, UnlinkAt::CODE),
    (Sysno::unlink, UnlinkAt::CODE),
    (Sysno::rmdir, UnlinkAt::CODE),
    (Sysno::renameat2, RenameAt::CODE),
    (Sysno::renameat, RenameAt::CODE),
    (Sysno::rename, RenameAt::CODE),
    (Sysno::mkdirat, MkDirAt::CODE),
    (Sysno::mkdir, MkDirAt::CODE),
    (Sysno::symlinkat, SymlinkAt::CODE),
    (Sysno::symlink, SymlinkAt::CODE),
    (Sysno::linkat, LinkAt::CODE),
    (Sysno::link, LinkAt::CODE),
    (Sysno::getxattr, GetXattr::CODE),
    (Sysno::setxattr, SetXattr::CODE),
    (Sysno::fgetxattr, FGetXattr::CODE),
    (Sysno::fsetxattr, FSetXattr::CODE),
    (Sysno::epoll_ctl, EpollCtl::CODE),
    (Sysno::sendto, Send::CODE),
    (Sysno::recvfrom, Recv::CODE),
    (Sysno::shutdown, Shutdown::CODE),
    (Sysno::splice, Splice::CODE),
    (Sysno::tee, Tee::CODE),
];

/// The numbers of [`CALLS`].
#[cfg(test)]
pub(super) fn numbers() -> impl Iterator<Item = u16> {
    CALLS.iter().map(|(call, _)| *call as u16)
}

/// The calls whose operations the kernel has.
pub(super) fn available(probe: &Probe) -> CallSet {
    let there = CALLS.iter().filter(|(_, code)| probe.is_supported(*code));
    there.fold(CallSet::EMPTY, |calls, (call, _)| calls.with(*call as u16))
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
