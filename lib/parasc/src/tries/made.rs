//! Making a call in its form that cannot sleep, and judging the answer.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_calls::{Request, Rules, call};
use kumiki_wait::Ticks;

use super::local;
use super::refused::{Advice, DeviceGroup, Group, REFUSED, device, is_file};
use super::way::{self, CannotTry, Form, Room};

/// A call that takes longer than so many ticks, some 10 µs, may have slept, and its descriptor
/// is asked for `O_DIRECT`.
const LONG: u64 = 30_000;

/// A file with `O_DIRECT` was tried and took long: from then on each descriptor is asked.
static DIRECT: AtomicBool = AtomicBool::new(false);

/// Outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// The call was made: a result or `-errno`, as the plain call's.
    Made(i64),
    /// The call would have slept.
    WouldSleep,
    /// The call has no form that cannot sleep.
    Cannot(CannotTry),
    /// The call was answered by an error that the plain call may not give: then this place, if it
    /// is one, knows no such form.
    NotHere(i64, Option<DeviceGroup>),
}

/// Tries the call, as far as the rules allow its form.
///
/// # Safety
/// The caller vouches for the call, as for [`kumiki_sys::syscall::raw`].
#[inline(always)]
pub(super) unsafe fn try_call(request: &Request, rules: Option<&Rules>) -> Tried {
    let mut room: Room = [0; 3];
    // SAFETY: the caller's promise.
    let (tried, form) = match unsafe { way::form(request, &mut room) } {
        Ok(form) => form,
        Err(cannot) => return Tried::Cannot(cannot),
    };
    if rules.is_some_and(|rules| rules.check(&tried).is_err()) {
        return Tried::Cannot(CannotTry {
            sysnum: request.sysnum,
            reason: "the engine's allow-list lacks the call by which it would be tried",
            instead: "allow preadv2, pwritev2 and openat2, too",
        });
    }
    let Some(group) = Group::of(form) else {
        // SAFETY: as the plain call, which the caller vouches for, and it waits for nothing.
        return judge_other(form, &tried, unsafe { call(&tried) });
    };
    let probe = match REFUSED.look(group, tried.args[0]) {
        Advice::Try => None,
        Advice::Probe(place) => Some(place),
        Advice::Skip => return Tried::WouldSleep,
    };
    let file = group != Group::Open;
    if file && DIRECT.load(Relaxed) && is_direct(tried.args[0]) {
        return Tried::WouldSleep;
    }
    let ticks = Ticks::new();
    let begin = if file { ticks.now() } else { 0 };
    // SAFETY: the plain call's memory and its meaning, with a flag not to sleep; `room` is
    // there.
    let ret_val = unsafe { call(&tried) };
    if file && ticks.now().wrapping_sub(begin) > LONG && is_direct(tried.args[0]) {
        DIRECT.store(true, Relaxed);
    }
    let made = judge(form, &tried, ret_val);
    if let Some(place) = probe {
        if !matches!(made, Tried::NotHere(..)) {
            REFUSED.forget(place);
        }
    }
    made
}

/// Answers of calls on files.
#[inline(always)]
fn judge(form: Form, tried: &Request, ret_val: i64) -> Tried {
    if ret_val < 0 {
        return refuse(form, tried, ret_val);
    }
    let count = ret_val as u64;
    match form {
        Form::Read { bytes, offset } if count < bytes => {
            after_short_read(tried.args[0], count, offset, ret_val)
        }
        // What was appended would be appended again.
        Form::Write { bytes } if count < bytes => {
            let appends = |flags| flags & libc::O_APPEND != 0;
            match way::status_flags(tried.args[0]).is_some_and(appends) {
                true => Tried::Made(ret_val),
                false => Tried::WouldSleep,
            }
        }
        _ => Tried::Made(ret_val),
    }
}

#[cold]
fn refuse(form: Form, tried: &Request, ret_val: i64) -> Tried {
    match -ret_val as i32 {
        // A pipe or terminal with O_NONBLOCK answers so itself; to a file the flag is nothing.
        libc::EAGAIN => match form {
            Form::Read { offset: None, .. }
                if way::is_nonblocking(tried.args[0]) && !is_file(tried.args[0]) =>
            {
                Tried::Made(ret_val)
            }
            _ => Tried::WouldSleep,
        },
        libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::EINVAL => {
            let place = Group::of(form).map(|group| (group, device(tried.args[0])));
            if let Some(place) = place {
                if matches!(-ret_val as i32, libc::EOPNOTSUPP | libc::ENOSYS) {
                    // The plain call does not answer so.
                    REFUSED.note(place);
                }
            }
            Tried::NotHere(ret_val, place)
        }
        _ => Tried::Made(ret_val),
    }
}

/// Asks, by one byte more, if the file ends after a short read.
#[inline(never)]
fn after_short_read(fd: u64, count: u64, offset: Option<u64>, ret_val: i64) -> Tried {
    let Some(offset) = offset else {
        return if count == 0 && ends_doubtfully() {
            Tried::WouldSleep
        } else {
            Tried::Made(ret_val)
        };
    };
    if ends_doubtfully() {
        return Tried::WouldSleep;
    }
    if count == 0 {
        return Tried::Made(ret_val);
    }
    let mut byte = 0_u8;
    let room: Room = [&raw mut byte as u64, 1, 0];
    let args = [fd, room.as_ptr() as u64, 1, offset + count, 0, libc::RWF_NOWAIT as u64];
    // SAFETY: it writes one byte, there.
    let more = unsafe { call(&Request::new(libc::SYS_preadv2, args)) };
    if more == 0 { Tried::Made(ret_val) } else { Tried::WouldSleep }
}

/// Linux 5.9 and 5.10 may answer 0 to `RWF_NOWAIT` where the file does not end (preadv2(2),
/// BUGS).
fn ends_doubtfully() -> bool {
    static DOUBTFUL: OnceLock<bool> = OnceLock::new();
    *DOUBTFUL.get_or_init(|| {
        let name = rustix::system::uname();
        let release = name.release().to_bytes();
        release.starts_with(b"5.9.") || release.starts_with(b"5.10.")
    })
}

/// Answers of other calls.
#[inline]
fn judge_other(form: Form, tried: &Request, ret_val: i64) -> Tried {
    match form {
        Form::Socket if ret_val == -i64::from(libc::EAGAIN) => {
            // One with O_NONBLOCK answers so itself.
            match way::is_nonblocking(tried.args[0]) {
                true => Tried::Made(ret_val),
                false => Tried::WouldSleep,
            }
        }
        Form::Attributes if ret_val == 0 => {
            // SAFETY: the kernel has written one `struct statx` there just now.
            let statx = unsafe { (tried.args[4] as *const libc::statx).read_unaligned() };
            let device = libc::makedev(statx.stx_dev_major, statx.stx_dev_minor);
            match local::is_local(tried.args[0], device) {
                true => Tried::Made(0),
                false => Tried::WouldSleep,
            }
        }
        _ => Tried::Made(ret_val),
    }
}

fn is_direct(fd: u64) -> bool {
    way::status_flags(fd).is_some_and(|flags| flags & libc::O_DIRECT != 0)
}
