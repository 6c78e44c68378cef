//! For each call its form that cannot sleep, and what the answer to that means.

use std::fmt;

use kumiki_calls::Request;

/// `RESOLVE_CACHED` of include/uapi/linux/openat2.h, since Linux 5.12.
const RESOLVE_CACHED: u64 = libc::RESOLVE_CACHED;
/// Size of `struct open_how` as it was first, and all that is known here.
const OPEN_HOW: u64 = 24;

/// A call that has no form which cannot sleep.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct CannotTry {
    /// The call's number.
    pub sysnum: u16,
    /// Reason for which there is none.
    pub reason: &'static str,
    /// Way out.
    pub instead: &'static str,
}

kumiki_sys::debug_is_display!(CannotTry);

impl fmt::Display for CannotTry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CannotTry { sysnum, reason, instead } = self;
        let name = kumiki_sys::syscall::name(usize::from(*sysnum)).unwrap_or("unknown");
        write!(f, "system call {name} ({sysnum}) cannot be tried: {reason}; {instead}")
    }
}

/// Meaning of answers, by the form that a call was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The call never sleeps as it is: every answer is the call's own.
    AsItIs,
    /// `preadv2` with `RWF_NOWAIT`, of so many bytes, at this offset if at any.
    Read { bytes: u64, offset: Option<u64> },
    /// `pwritev2` with `RWF_NOWAIT`, of so many bytes.
    Write { bytes: u64 },
    /// `openat2` with `RESOLVE_CACHED`.
    Open,
    /// A call on a socket with `MSG_DONTWAIT`.
    Socket,
    /// `statx` of a descriptor with `AT_STATX_DONT_SYNC`.
    Attributes,
}

/// Memory that the arguments of a tried call point to: a `struct iovec` or a `struct open_how`.
pub(super) type Room = [u64; 3];

/// The form of `request` that cannot sleep. It may point to `room`.
///
/// # Errors
/// [`CannotTry`], if there is none.
///
/// # Safety
/// The pointers of the request are valid for what the kernel reads through them.
#[inline(always)]
pub(super) unsafe fn form(
    request: &Request,
    room: &mut Room,
) -> Result<(Request, Form), CannotTry> {
    let args = &request.args;
    let cannot = |reason, instead| Err(CannotTry { sysnum: request.sysnum, reason, instead });
    match libc::c_long::from(request.sysnum) {
        // A negative offset is an error here, and "the file's position" there.
        libc::SYS_pread64 | libc::SYS_pwrite64 if (args[3] as i64) < 0 => {
            Ok((*request, Form::AsItIs))
        }
        libc::SYS_pread64 => {
            let (fd, bytes, offset) = (args[0], args[2], args[3]);
            *room = [args[1], bytes, 0];
            let form = Form::Read { bytes, offset: Some(offset) };
            Ok((vectored(libc::SYS_preadv2, fd, room, offset), form))
        }
        libc::SYS_read => {
            *room = [args[1], args[2], 0];
            let form = Form::Read { bytes: args[2], offset: None };
            Ok((vectored(libc::SYS_preadv2, args[0], room, u64::MAX), form))
        }
        libc::SYS_preadv2 | libc::SYS_pwritev2 => {
            let (mut tried, offset) = (*request, args[3]);
            tried.args[5] |= libc::RWF_NOWAIT as u64;
            // SAFETY: the caller vouches for the ranges that the call names.
            let bytes = unsafe { sum(args[1], args[2]) };
            let reads = libc::c_long::from(request.sysnum) == libc::SYS_preadv2;
            match (reads, offset == u64::MAX) {
                (true, position) => {
                    Ok((tried, Form::Read { bytes, offset: (!position).then_some(offset) }))
                }
                (false, false) => Ok((tried, Form::Write { bytes })),
                (false, true) => cannot(AT_POSITION, AT_OFFSET),
            }
        }
        libc::SYS_pwrite64 => {
            *room = [args[1], args[2], 0];
            let tried = vectored(libc::SYS_pwritev2, args[0], room, args[3]);
            Ok((tried, Form::Write { bytes: args[2] }))
        }
        libc::SYS_write | libc::SYS_writev => cannot(AT_POSITION, AT_OFFSET),
        libc::SYS_openat => {
            let how = [args[2] as i32 as u32 as u64, 0, 0];
            open(request, how, room).map_or_else(|(reason, instead)| cannot(reason, instead), Ok)
        }
        libc::SYS_openat2 if args[3] == OPEN_HOW => {
            // SAFETY: a `struct open_how`, the caller vouches.
            let how = unsafe { (args[2] as *const Room).read_unaligned() };
            open(request, how, room).map_or_else(|(reason, instead)| cannot(reason, instead), Ok)
        }
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_sendto | libc::SYS_sendmsg => {
            let at = match libc::c_long::from(request.sysnum) {
                libc::SYS_recvfrom | libc::SYS_sendto => 3,
                _ => 2,
            };
            if args[at] & libc::MSG_WAITALL as u64 != 0 {
                return cannot(
                    "MSG_WAITALL asks for all bytes, and those that have come cannot be put back",
                    "ask without it",
                );
            }
            let mut tried = *request;
            tried.args[at] |= libc::MSG_DONTWAIT as u64;
            let own = args[at] & libc::MSG_DONTWAIT as u64 != 0;
            Ok((tried, if own { Form::AsItIs } else { Form::Socket }))
        }
        libc::SYS_accept4 | libc::SYS_accept => match is_nonblocking(args[0]) {
            true => Ok((*request, Form::AsItIs)),
            false => cannot(
                "only a flag of the listening socket keeps it from sleeping",
                "set O_NONBLOCK for the socket, or submit the call",
            ),
        },
        libc::SYS_statx => {
            // SAFETY: a path, the caller vouches; it ends with a zero byte, at the least.
            let is_empty = args[1] != 0 && unsafe { *(args[1] as *const u8) } == 0;
            if args[2] & libc::AT_EMPTY_PATH as u64 == 0 || !is_empty {
                return cannot(
                    "no flag keeps the walk along its path from sleeping (AT_STATX_DONT_SYNC \
                     only spares a question to a remote server)",
                    "open the file with O_PATH and ask its descriptor, or submit the call",
                );
            }
            let mut tried = *request;
            if args[2] & libc::AT_STATX_DONT_SYNC as u64 != 0 {
                return Ok((tried, Form::AsItIs));
            }
            if args[2] & libc::AT_STATX_FORCE_SYNC as u64 != 0 {
                return cannot("AT_STATX_FORCE_SYNC asks for news of a server", "submit it");
            }
            tried.args[2] |= libc::AT_STATX_DONT_SYNC as u64;
            Ok((tried, Form::Attributes))
        }
        // They answer from the kernel's memory; closing a file of ours may write.
        libc::SYS_getppid
        | libc::SYS_getsockname
        | libc::SYS_getpeername
        | libc::SYS_getsockopt
        | libc::SYS_epoll_ctl => Ok((*request, Form::AsItIs)),
        _ => cannot("it has no form that is known not to sleep", "submit it"),
    }
}

const AT_POSITION: &str = "a part that was written moves the file's position, and is not undone";
const AT_OFFSET: &str = "write at an offset, send with MSG_DONTWAIT, or submit the call";

/// The call with `room` as its one range.
#[inline(always)]
fn vectored(sysnum: libc::c_long, fd: u64, room: &Room, offset: u64) -> Request {
    let nowait = libc::RWF_NOWAIT as u64;
    Request::new(sysnum, [fd, room.as_ptr() as u64, 1, offset, 0, nowait])
}

/// Bytes in so many ranges.
///
/// # Safety
/// There are so many.
unsafe fn sum(ranges: u64, count: u64) -> u64 {
    let range = |at: u64| {
        // SAFETY: the caller's promise.
        let range =
            unsafe { (ranges as *const libc::iovec).wrapping_add(at as usize).read_unaligned() };
        range.iov_len as u64
    };
    // More than IOV_MAX are an error anyway.
    (0..count.min(1024)).map(range).fold(0, u64::saturating_add)
}

/// An open of what is in the caches of names.
#[inline(always)]
fn open(
    request: &Request,
    mut how: Room,
    room: &mut Room,
) -> Result<(Request, Form), (&'static str, &'static str)> {
    let flags = how[0] as i32;
    // O_TMPFILE has the bit of O_DIRECTORY, too.
    let makes = libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    if flags & makes != 0 {
        return Err(("a file is made or cut short on the disk", "submit it"));
    }
    if flags & (libc::O_NONBLOCK | libc::O_PATH | libc::O_DIRECTORY) == 0 {
        return Err((
            "without O_NONBLOCK the open of a FIFO waits for its other end",
            "add O_NONBLOCK, which means nothing to files, or submit the call",
        ));
    }
    if libc::c_long::from(request.sysnum) == libc::SYS_openat {
        // What openat passes over is an error to openat2.
        how[0] &= known_flags(flags) as u64;
    }
    how[2] |= RESOLVE_CACHED;
    *room = how;
    let [dir, path, ..] = request.args;
    let tried = Request::new(libc::SYS_openat2, [dir, path, room.as_ptr() as u64, OPEN_HOW]);
    Ok((tried, Form::Open))
}

/// Flags that openat looks at: of `O_PATH` few go with others (`build_open_how`, fs/open.c).
const fn known_flags(flags: i32) -> u32 {
    use libc::*;
    let path = O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;
    let all = O_ACCMODE
        | O_EXCL
        | O_NOCTTY
        | O_APPEND
        | O_NONBLOCK
        | O_SYNC
        | O_DSYNC
        | O_ASYNC
        | O_DIRECT
        | 0o100_000
        | O_NOATIME
        | path;
    (if flags & O_PATH != 0 { path } else { all }) as u32
}

/// True if the open file has `O_NONBLOCK`.
pub(super) fn is_nonblocking(fd: u64) -> bool {
    status_flags(fd).is_some_and(|flags| flags & libc::O_NONBLOCK != 0)
}

/// The flags of an open file.
pub(super) fn status_flags(fd: u64) -> Option<i32> {
    let request = Request::new(libc::SYS_fcntl, [fd, libc::F_GETFL as u64]);
    // SAFETY: it only tells of a descriptor, whatever that number is.
    let flags = unsafe { kumiki_calls::call(&request) };
    i32::try_from(flags).ok().filter(|flags| *flags >= 0)
}
