//! Which system calls are entries of io_uring's submission queue, where the two mean
//! the same: one row a call.
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

use io_uring::opcode::*;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{Probe, opcode};
use kumiki_calls::{CallSet, NUMBERS, Request};
use kumiki_sys::syscall;
use syscalls::Sysno;

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
/// Flags without `AT_STATX_DONT_SYNC`, which excludes another.
const STATX_FLAGS: u64 = (libc::AT_SYMLINK_NOFOLLOW
    | libc::AT_NO_AUTOMOUNT
    | libc::AT_EMPTY_PATH
    | libc::AT_STATX_FORCE_SYNC) as u64;
/// All but the reserved bit.
const STATX_MASK: u64 = 0x7fff_ffff;

/// An open with one of these never waits for the other end of a FIFO.
const OPENS_AT_ONCE: i32 = libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_PATH;

#[cfg(target_arch = "x86_64")]
const HERE: Fd = Fd(libc::AT_FDCWD);

/// A call and the operation that means the same.
struct Row {
    call: Sysno,
    /// The operation, which the kernel may lack.
    code: u8,
    /// The entry, if there is one with these arguments.
    entry: fn(&mut Args<'_>) -> Option<Entry>,
}

const fn row(call: Sysno, code: u8, entry: fn(&mut Args<'_>) -> Option<Entry>) -> Row {
    Row { call, code, entry }
}

/// sync_file_range(2), which the list of aarch64's calls has under the name that it has on 32 bits.
#[cfg(target_arch = "x86_64")]
const SYNC_FILE_RANGE: Sysno = Sysno::sync_file_range;
/// sync_file_range(2), which the list of aarch64's calls has under the name that it has on 32 bits.
#[cfg(target_arch = "aarch64")]
const SYNC_FILE_RANGE: Sysno = Sysno::sync_file_range2;

// aarch64 has the *at forms alone.
static ROWS: &[Row] = &[
    row(Sysno::pread64, Read::CODE, |of| {
        let entry = Read::new(of.positioned(0)?, of.pointer(1), of.bytes(2)?);
        Some(entry.offset(of.position(3)?).build())
    }),
    row(Sysno::pwrite64, Write::CODE, |of| {
        let entry = Write::new(of.positioned(0)?, of.pointer(1), of.bytes(2)?);
        Some(entry.offset(of.position(3)?).build())
    }),
    row(Sysno::preadv, Readv::CODE, |of| {
        let entry = Readv::new(of.positioned(0)?, of.pointer(1), of.parts(2)?);
        Some(entry.offset(of.position(3)?).build())
    }),
    row(Sysno::pwritev, Writev::CODE, |of| {
        let entry = Writev::new(of.positioned(0)?, of.pointer(1), of.parts(2)?);
        Some(entry.offset(of.position(3)?).build())
    }),
    row(Sysno::preadv2, Readv::CODE, |of| {
        let entry = Readv::new(of.positioned(0)?, of.pointer(1), of.parts(2)?);
        let entry = entry.offset(of.position(3)?);
        Some(entry.rw_flags(of.flags(5, RW_FLAGS)? as _).build())
    }),
    row(Sysno::pwritev2, Writev::CODE, |of| {
        let entry = Writev::new(of.positioned(0)?, of.pointer(1), of.parts(2)?);
        let entry = entry.offset(of.position(3)?);
        Some(entry.rw_flags(of.flags(5, RW_FLAGS)? as _).build())
    }),
    row(Sysno::fsync, Fsync::CODE, |of| Some(Fsync::new(of.fd(0)).build())),
    row(Sysno::fdatasync, Fsync::CODE, |of| {
        Some(Fsync::new(of.fd(0)).flags(FsyncFlags::DATASYNC).build())
    }),
    row(SYNC_FILE_RANGE, SyncFileRange::CODE, |of| {
        let entry = SyncFileRange::new(of.fd(0), of.small(2)?).offset(of.arg(1));
        Some(entry.flags(of.flags(3, SYNC_FLAGS)? as u32).build())
    }),
    row(Sysno::openat, OpenAt::CODE, |of| {
        let entry = OpenAt::new(of.fd(0), of.pointer(1)).flags(of.int(2)).mode(of.mode(3)).build();
        let at_once = of.int(2) & OPENS_AT_ONCE != 0;
        Some(if at_once { entry } else { entry.flags(Flags::ASYNC) })
    }),
    // Its flags are in memory, which only the kernel may look at safely.
    row(Sysno::openat2, OpenAt2::CODE, |of| {
        let entry = OpenAt2::new(of.fd(0), of.pointer(1), of.pointer(2)).build();
        (of.arg(3) == OPEN_HOW_BYTES).then(|| entry.flags(Flags::ASYNC))
    }),
    row(Sysno::close, Close::CODE, |of| Some(Close::new(of.fd(0)).build())),
    row(Sysno::statx, Statx::CODE, |of| {
        let entry = Statx::new(of.fd(0), of.pointer(1), of.pointer(4))
            .flags(of.flags(2, STATX_FLAGS)? as i32)
            .mask(of.flags(3, STATX_MASK)? as u32);
        // Without a path it is the descriptor's own, which io_uring does not know.
        (of.arg(1) != 0).then(|| entry.build())
    }),
    row(Sysno::fallocate, opcode::Fallocate::CODE, |of| {
        let entry = opcode::Fallocate::new(of.fd(0), of.arg(3));
        Some(entry.offset(of.arg(2)).mode(of.int(1)).build())
    }),
    row(Sysno::ftruncate, Ftruncate::CODE, |of| Some(Ftruncate::new(of.fd(0), of.arg(1)).build())),
    row(Sysno::fadvise64, Fadvise::CODE, |of| {
        let entry = Fadvise::new(of.fd(0), i64::from(of.small(2)?), of.int(3));
        Some(entry.offset(of.arg(1)).build())
    }),
    row(Sysno::madvise, Madvise::CODE, |of| {
        Some(Madvise::new(of.pointer(0), i64::from(of.small(1)?), of.int(2)).build())
    }),
    row(Sysno::unlinkat, UnlinkAt::CODE, |of| {
        let entry = UnlinkAt::new(of.fd(0), of.pointer(1));
        Some(entry.flags(of.flags(2, UNLINK_FLAGS)? as i32).build())
    }),
    #[cfg(target_arch = "x86_64")]
    row(Sysno::unlink, UnlinkAt::CODE, |of| Some(UnlinkAt::new(HERE, of.pointer(0)).build())),
    #[cfg(target_arch = "x86_64")]
    row(Sysno::rmdir, UnlinkAt::CODE, |of| {
        Some(UnlinkAt::new(HERE, of.pointer(0)).flags(libc::AT_REMOVEDIR).build())
    }),
    row(Sysno::renameat2, RenameAt::CODE, |of| {
        let entry = RenameAt::new(of.fd(0), of.pointer(1), of.fd(2), of.pointer(3));
        Some(entry.flags(of.flags(4, RENAME_FLAGS)? as u32).build())
    }),
    row(Sysno::renameat, RenameAt::CODE, |of| {
        Some(RenameAt::new(of.fd(0), of.pointer(1), of.fd(2), of.pointer(3)).build())
    }),
    #[cfg(target_arch = "x86_64")]
    row(Sysno::rename, RenameAt::CODE, |of| {
        Some(RenameAt::new(HERE, of.pointer(0), HERE, of.pointer(1)).build())
    }),
    row(Sysno::mkdirat, MkDirAt::CODE, |of| {
        Some(MkDirAt::new(of.fd(0), of.pointer(1)).mode(of.mode(2)).build())
    }),
    #[cfg(target_arch = "x86_64")]
    row(Sysno::mkdir, MkDirAt::CODE, |of| {
        Some(MkDirAt::new(HERE, of.pointer(0)).mode(of.mode(1)).build())
    }),
    row(Sysno::symlinkat, SymlinkAt::CODE, |of| {
        Some(SymlinkAt::new(of.fd(1), of.pointer(0), of.pointer(2)).build())
    }),
    #[cfg(target_arch = "x86_64")]
    row(Sysno::symlink, SymlinkAt::CODE, |of| {
        Some(SymlinkAt::new(HERE, of.pointer(0), of.pointer(1)).build())
    }),
    row(Sysno::linkat, LinkAt::CODE, |of| {
        let entry = LinkAt::new(of.fd(0), of.pointer(1), of.fd(2), of.pointer(3));
        Some(entry.flags(of.flags(4, LINK_FLAGS)? as i32).build())
    }),
    #[cfg(target_arch = "x86_64")]
    row(Sysno::link, LinkAt::CODE, |of| {
        Some(LinkAt::new(HERE, of.pointer(0), HERE, of.pointer(1)).build())
    }),
    row(Sysno::getxattr, GetXattr::CODE, |of| {
        let value = of.pointer(2);
        Some(GetXattr::new(of.pointer(1), value, of.pointer(0), of.small(3)?).build())
    }),
    row(Sysno::setxattr, SetXattr::CODE, |of| {
        let value = of.pointer(2);
        let entry = SetXattr::new(of.pointer(1), value, of.pointer(0), of.small(3)?);
        Some(entry.flags(of.flags(4, XATTR_FLAGS)? as i32).build())
    }),
    row(Sysno::fgetxattr, FGetXattr::CODE, |of| {
        Some(FGetXattr::new(of.fd(0), of.pointer(1), of.pointer(2), of.small(3)?).build())
    }),
    row(Sysno::fsetxattr, FSetXattr::CODE, |of| {
        let entry = FSetXattr::new(of.fd(0), of.pointer(1), of.pointer(2), of.small(3)?);
        Some(entry.flags(of.flags(4, XATTR_FLAGS)? as i32).build())
    }),
    row(Sysno::epoll_ctl, EpollCtl::CODE, |of| {
        Some(EpollCtl::new(of.fd(0), of.fd(2), of.int(1), of.pointer(3)).build())
    }),
    row(Sysno::sendto, Send::CODE, |of| {
        let known = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u64;
        let entry = Send::new(of.fd(0), of.pointer(1), of.bytes(2)?).flags(known as i32);
        (of.arg(3) == known && of.arg(4) == 0).then(|| entry.build())
    }),
    row(Sysno::recvfrom, Recv::CODE, |of| {
        let flags = of.flags(3, (libc::MSG_DONTWAIT | libc::MSG_PEEK) as u64)? as i32;
        let waits = flags & libc::MSG_DONTWAIT == 0;
        let entry = Recv::new(of.fd(0), of.pointer(1), of.bytes(2)?).flags(flags);
        (!waits && of.arg(4) == 0).then(|| entry.build())
    }),
    row(Sysno::shutdown, Shutdown::CODE, |of| Some(Shutdown::new(of.fd(0), of.int(1)).build())),
    row(Sysno::splice, Splice::CODE, |of| {
        let entry = Splice::new(of.fd(0), -1, of.fd(2), -1, of.small(4)?)
            .flags(of.flags(5, SPLICE_FLAGS)? as u32);
        // Positions of its own would have to be read and written here.
        (of.arg(1) == 0 && of.arg(3) == 0).then(|| entry.build())
    }),
    row(Sysno::tee, Tee::CODE, |of| {
        let entry = Tee::new(of.fd(0), of.fd(1), of.small(2)?);
        Some(entry.flags(of.flags(3, SPLICE_FLAGS)? as u32).build())
    }),
];

/// Place of each call among the rows, from 1 on.
static PLACES: [u8; NUMBERS] = {
    let mut places = [0; NUMBERS];
    let mut at = 0;
    while at < ROWS.len() {
        places[ROWS[at].call as usize] = at as u8 + 1;
        at += 1;
    }
    places
};

/// The calls of the rows.
#[cfg(test)]
pub(crate) fn numbers() -> impl Iterator<Item = u16> {
    ROWS.iter().map(|row| row.call as u16)
}

/// The calls whose operations the kernel has.
pub(crate) fn available(probe: &Probe) -> CallSet {
    let there = ROWS.iter().filter(|row| probe.is_supported(row.code));
    there.fold(CallSet::EMPTY, |calls, row| calls.with(row.call as u16))
}

/// The entry that means the same as `request`, if there is one.
pub(crate) fn translate(request: &Request, files: &mut Files) -> Option<Entry> {
    let place = PLACES.get(usize::from(request.sysnum)).copied().unwrap_or(0);
    let row = ROWS.get(usize::from(place).checked_sub(1)?)?;
    (row.entry)(&mut Args { request, files })
}

/// The arguments of a call, as io_uring takes them; `None`: it does not take this one.
struct Args<'a> {
    request: &'a Request,
    files: &'a mut Files,
}

impl Args<'_> {
    fn arg(&self, at: usize) -> u64 {
        if at < usize::from(self.request.args_num) { self.request.args[at] } else { 0 }
    }

    fn int(&self, at: usize) -> i32 {
        self.arg(at) as i32
    }

    fn fd(&self, at: usize) -> Fd {
        Fd(self.int(at))
    }

    fn pointer<T>(&self, at: usize) -> *mut T {
        self.arg(at) as *mut T
    }

    /// The kernel takes a `umode_t` of 16 bits.
    fn mode(&self, at: usize) -> u32 {
        u32::from(self.arg(at) as u16)
    }

    fn small(&self, at: usize) -> Option<u32> {
        u32::try_from(self.arg(at)).ok()
    }

    fn bytes(&self, at: usize) -> Option<u32> {
        (self.arg(at) <= MOST_BYTES).then_some(self.arg(at) as u32)
    }

    fn parts(&self, at: usize) -> Option<u32> {
        (self.arg(at) <= MOST_PARTS).then_some(self.arg(at) as u32)
    }

    /// -1 would be the file's own position.
    fn position(&self, at: usize) -> Option<u64> {
        (self.arg(at) as i64 >= 0).then_some(self.arg(at))
    }

    /// A descriptor of what has positions.
    fn positioned(&mut self, at: usize) -> Option<Fd> {
        let fd = self.fd(at);
        self.files.has_positions(fd.0).then_some(fd)
    }

    /// Flags, all of which the call knows.
    fn flags(&self, at: usize, known: u64) -> Option<u64> {
        (self.arg(at) & !known == 0).then_some(self.arg(at))
    }
}

/// Facts about the descriptors of a batch.
#[derive(Debug, Default)]
pub(crate) struct Files {
    last: Option<(i32, bool)>,
}

impl Files {
    /// True if this is a file with contents, or a disk: it has positions, and never lets a reader
    /// wait for a writer. Files of /proc look regular, are empty, and some refuse positions; so do
    /// empty files not count.
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
