//! The kernel module, by its device: threads that serve inside the kernel, and batches that
//! are made by one entry (`node/kernel/uapi/parasc.h`).
//!
//! What the module does not make it hands back, claimed, to the thread that has entered:
//! calls for the thread itself, and all of them once a filter or a tracer looks on or the
//! thread has a signal. That thread makes them by plain system calls, so a filter sees what
//! it would see without the module, and nothing is lost.

use std::fs::File;
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::os::fd::AsRawFd;
use std::time::Duration;

use kumiki_calls::Request;
use kumiki_sys::syscall;
use rustix::ioctl::{Opcode, opcode};

use super::Lack;
use super::refusal::Refusal;
use crate::area::{Area, VERSION};
use crate::line::Calls;

const DEVICE: &str = "/dev/kumiki-parasc";
/// `PARASC_IOC_TYPE`.
const TYPE: u8 = 0xbd;

const IOC_VERSION: Opcode = opcode::read::<u32>(TYPE, 0);
const IOC_PROC: Opcode = opcode::read_write::<Proc>(TYPE, 1);
const IOC_WAIT: Opcode = opcode::read_write::<Wait>(TYPE, 2);
const IOC_WAKE_UP: Opcode = opcode::none(TYPE, 3);

/// `PARASC_ANY_THREAD`.
const ANY_THREAD: u32 = 1;
/// `PARASC_CLAIMS_NONE`.
const CLAIMS_NONE: u32 = 1;

/// `struct parasc_calls`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct KernelCalls {
    requests: u64,
    results: u64,
    first: u32,
    last: u32,
}

/// `struct parasc_proc`.
#[derive(Debug, Default)]
#[repr(C)]
struct Proc {
    area: u64,
    length: u64,
    spin_ns: u64,
    idle_ns: u64,
    flags: u32,
    share: u32,
    recalls: u32,
    line: u32,
    calls: KernelCalls,
    made: u32,
    reserved: u32,
    signals: u64,
}

/// `struct parasc_wait`.
#[derive(Debug, Default)]
#[repr(C)]
struct Wait {
    area: u64,
    line: u32,
    share: u32,
    calls: KernelCalls,
    /// Longest sleep there; a requester of an engine sleeps elsewhere.
    timeout_ns: u64,
    min: u32,
    flags: u32,
}

/// Longest sleep of a requesting thread before it looks around.
const LOOK: Duration = Duration::from_millis(100);

const TOLD: i64 = 1;
const AGAIN: i64 = 2;
const OVER: i64 = 3;
const CALLS: i64 = 4;
const SERVED: i64 = 5;

/// Terms of a processing thread's stay inside the kernel.
#[derive(Debug, Default)]
pub(crate) struct Stay {
    /// Half of one part in so many of what is left is claimed at once.
    pub(crate) share: usize,
    pub(crate) recalls: u32,
    /// Time that it looks without a call to make, before it sleeps …
    pub(crate) spin: Duration,
    /// Time without a call after which it leaves.
    pub(crate) idle: Duration,
    /// Blocked signals for which it comes back.
    pub(crate) signals: u64,
    /// True if it makes gettid(2), which answers for it.
    pub(crate) any_thread: bool,
}

/// Reason for which a thread that serves has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// Nothing has come for as long as it was to look; whether it has made calls before.
    Idle { served: bool },
    /// The thread has been called back, or has something else to see to.
    Called,
    /// The offer of this lane is over, and its requesting thread may sleep.
    Over(usize),
    /// Calls `first..last` of this lane are claimed and not made, and `made` of the same
    /// claim are made but not said to be so.
    Calls { lane: usize, first: usize, last: usize, made: usize },
    /// The module does not let it in (any more).
    Refused,
}

/// The device, open.
#[derive(Debug)]
pub(crate) struct Inside {
    device: File,
    refusal: Refusal,
}

impl Inside {
    /// Opens it, and looks whether this thread is let in.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn open() -> Result<Self, Lack> {
        let user = "or choose backend user";
        let device = File::options().read(true).write(true).open(DEVICE);
        let device = device.map_err(|error| match error.kind() {
            NotFound => Lack::new(
                format!("module kumiki-parasc is not loaded: {DEVICE} is not there"),
                match is_locked_down() {
                    true => format!("sign the module: a locked down kernel loads no other, {user}"),
                    false => format!("`modprobe parasc` (docs/design/parasc-kernel.md), {user}"),
                },
            ),
            PermissionDenied => Lack::new(
                format!("{DEVICE} may not be opened: {error}"),
                format!("give this user the right to it, {user}"),
            ),
            _ => Lack::new(format!("opening {DEVICE}: {error}"), format!("see dmesg, {user}")),
        })?;
        let inside = Inside { device, refusal: Refusal::default() };
        let mut version = 0_u32;
        let known = inside.ioctl(IOC_VERSION, &mut version);
        if known < 0 || version != VERSION {
            return Err(Lack::new(
                format!("module kumiki-parasc has version {version}, and this library {VERSION}"),
                format!("load the module that belongs to this library, {user}"),
            ));
        }
        if inside.ioctl(IOC_WAIT, &mut Wait::default()) < 0 {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            let (who, remedy) = onlooker(&status);
            return Err(Lack::new(
                format!(
                    "module kumiki-parasc refuses a thread at whose calls {who} looks, which would \
                     not see them"
                ),
                format!("{remedy}, {user}"),
            ));
        }
        Ok(inside)
    }

    fn ioctl<T>(&self, request: Opcode, argument: &mut T) -> i64 {
        let fd = self.device.as_raw_fd() as u64;
        let args =
            [fd, u64::from(request), (&raw mut *argument).expose_provenance() as u64, 0, 0, 0];
        // SAFETY: the structure of this request; what it points to the callers vouch for.
        unsafe { syscall::raw(libc::SYS_ioctl as usize, args) }
    }

    /// Makes calls that are nobody else's, by one entry.
    ///
    /// # Safety
    /// As for [`plain`].
    #[inline(never)]
    pub(crate) unsafe fn make(&self, requests: &[Request], results: &mut [i64]) {
        let calls = part(requests, results);
        // SAFETY: the caller's promise.
        unsafe { self.enter(Wait { calls, ..Wait::default() }, None) };
    }

    /// Makes these, and then calls of this lane from the end, as long as there are some, half of
    /// one part in `share` of what is left at once. By the requesting thread.
    ///
    /// # Safety
    /// As for [`plain`], and [`Line::make_last`](crate::line::Line::make_last).
    pub(crate) unsafe fn make_last(
        &self,
        (requests, results): (&[Request], &mut [i64]),
        (area, lane): (&Area, usize),
        share: usize,
    ) {
        let calls = part(requests, results);
        let wait = Wait {
            area: address(area),
            line: lane as u32,
            share: share as u32,
            calls,
            ..Wait::default()
        };
        // SAFETY: the caller's promise.
        unsafe { self.enter(wait, Some((area, lane, share))) };
    }

    /// # Safety
    /// As for [`make_last`](Self::make_last).
    unsafe fn enter(&self, mut wait: Wait, line: Option<(&Area, usize, usize)>) {
        if self.is_refused() {
            // SAFETY: the caller's promise.
            return unsafe { make_plainly(wait.calls, line) };
        }
        let mut ended = self.ioctl(IOC_WAIT, &mut wait);
        while ended == CALLS {
            // What is left may be the thread's own part, or claimed in the line.
            // SAFETY: the caller's promise; handed back to this thread.
            unsafe { make_part(wait.calls) };
            wait.calls = KernelCalls::default();
            ended = self.ioctl(IOC_WAIT, &mut wait);
        }
        self.refusal.note(ended < 0);
        if ended < 0 {
            // Nothing of it has been begun but what was made just now.
            // SAFETY: the caller's promise.
            unsafe { make_plainly(wait.calls, line) };
        }
    }

    /// True if the module does not let this process in, and is not to be asked again yet.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusal.holds()
    }

    /// Serves inside the kernel until the area says another number of recalls, or what else
    /// `stay` says has come.
    ///
    /// # Safety
    /// Who offers calls in the area vouches for them.
    pub(crate) unsafe fn serve(&self, area: &Area, stay: &Stay) -> Return {
        if self.is_refused() {
            return Return::Refused;
        }
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut proc = Proc {
            area: address(area),
            length: size_of::<Area>() as u64,
            spin_ns: ns(stay.spin),
            idle_ns: ns(stay.idle),
            flags: u32::from(stay.any_thread) * ANY_THREAD,
            share: stay.share as u32,
            recalls: stay.recalls,
            signals: stay.signals,
            ..Proc::default()
        };
        let ended = self.ioctl(IOC_PROC, &mut proc);
        self.refusal.note(ended < 0);
        match ended {
            0 => Return::Idle { served: false },
            SERVED => Return::Idle { served: true },
            TOLD | AGAIN => Return::Called,
            OVER => Return::Over(proc.line as usize),
            CALLS => Return::Calls {
                lane: proc.line as usize,
                first: proc.calls.first as usize,
                last: proc.calls.last as usize,
                made: proc.made as usize,
            },
            _ => Return::Refused,
        }
    }

    /// Sleeps inside the kernel until all that this lane offers is over, a signal has come, or for [`LOOK`]: who was to
    /// make it may not be let in any more, and has nobody to wake this thread.
    pub(super) fn wait(&self, area: &Area, lane: usize) {
        let mut wait = Wait { area: address(area), line: lane as u32, ..Wait::default() };
        (wait.min, wait.timeout_ns, wait.flags) = (u32::MAX, LOOK.as_nanos() as u64, CLAIMS_NONE);
        self.ioctl(IOC_WAIT, &mut wait);
    }

    /// Wakes up to so many that sleep in [`serve`](Self::serve), and has those look that
    /// [`wait`](Self::wait).
    pub(super) fn wake_up(&self, threads: u32) {
        let fd = self.device.as_raw_fd() as u64;
        let args = [fd, u64::from(IOC_WAKE_UP), u64::from(threads), 0, 0, 0];
        // SAFETY: it takes a number.
        unsafe { syscall::raw(libc::SYS_ioctl as usize, args) };
    }
}

fn address(area: &Area) -> u64 {
    (&raw const *area).expose_provenance() as u64
}

fn part(requests: &[Request], results: &mut [i64]) -> KernelCalls {
    KernelCalls {
        requests: requests.as_ptr().expose_provenance() as u64,
        results: results.as_mut_ptr().expose_provenance() as u64,
        first: 0,
        last: requests.len() as u32,
    }
}

/// Makes these calls, and then those of a line from the end, without the module.
///
/// # Safety
/// As for [`Inside::make_last`].
unsafe fn make_plainly(calls: KernelCalls, line: Option<(&Area, usize, usize)>) {
    // SAFETY: the caller's promise.
    unsafe { make_part(calls) };
    if let Some((area, lane, share)) = line {
        // SAFETY: as above.
        unsafe { area.line(lane).make_last(share) };
    }
}

/// Makes calls that the module has handed back, or never had.
///
/// # Safety
/// As for [`plain`].
unsafe fn make_part(part: KernelCalls) {
    let calls = Calls {
        requests: std::ptr::with_exposed_provenance(part.requests as usize),
        results: std::ptr::with_exposed_provenance_mut(part.results as usize),
    };
    if part.first < part.last {
        // SAFETY: the caller vouches for them.
        unsafe { calls.make(part.first as usize..part.last as usize, |_| ()) };
    }
}

/// Onlooker at the calls of the thread that has this `/proc/…/status`, and what to do.
fn onlooker(status: &str) -> (&'static str, &'static str) {
    let is_set = |name: &str| {
        let mut values = status.lines().filter_map(|line| line.strip_prefix(name));
        values.any(|value| value.trim() != "0")
    };
    if is_set("Seccomp:") {
        ("a seccomp filter", "run outside the sandbox")
    } else if is_set("TracerPid:") {
        ("a tracer", "end the tracer (strace, gdb)")
    } else {
        // Of neither of them the status says anything.
        (
            "audit, which auditd has on for all processes, or a tracepoint of system calls",
            "`auditctl -a task,never` for processes that start after it, or end `perf trace`",
        )
    }
}

/// True if the kernel is locked down: as `none [integrity] confidentiality` says.
fn is_locked_down() -> bool {
    let text = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    text.contains('[') && !text.contains("[none]")
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;

    /// Layout, for comparison with the header (`tests.rs` of the crate).
    pub(crate) const LAYOUT: &[(&str, usize)] = &[
        ("sizeof(struct parasc_proc)", size_of::<Proc>()),
        ("offsetof(struct parasc_proc, recalls)", std::mem::offset_of!(Proc, recalls)),
        ("offsetof(struct parasc_proc, calls)", std::mem::offset_of!(Proc, calls)),
        ("offsetof(struct parasc_proc, made)", std::mem::offset_of!(Proc, made)),
        ("offsetof(struct parasc_proc, signals)", std::mem::offset_of!(Proc, signals)),
        ("sizeof(struct parasc_wait)", size_of::<Wait>()),
        ("offsetof(struct parasc_wait, calls)", std::mem::offset_of!(Wait, calls)),
        ("offsetof(struct parasc_wait, timeout_ns)", std::mem::offset_of!(Wait, timeout_ns)),
        ("offsetof(struct parasc_wait, min)", std::mem::offset_of!(Wait, min)),
        ("offsetof(struct parasc_wait, flags)", std::mem::offset_of!(Wait, flags)),
        ("PARASC_IOC_VERSION", IOC_VERSION as usize),
        ("PARASC_IOC_PROC", IOC_PROC as usize),
        ("PARASC_IOC_WAIT", IOC_WAIT as usize),
        ("PARASC_IOC_WAKE_UP", IOC_WAKE_UP as usize),
        ("PARASC_ANY_THREAD", ANY_THREAD as usize),
        ("PARASC_CLAIMS_NONE", CLAIMS_NONE as usize),
        ("PARASC_IDLE", 0),
        ("PARASC_TOLD", TOLD as usize),
        ("PARASC_AGAIN", AGAIN as usize),
        ("PARASC_OVER", OVER as usize),
        ("PARASC_CALLS", CALLS as usize),
        ("PARASC_SERVED", SERVED as usize),
    ];

    #[test]
    fn who_looks_at_a_threads_calls_is_named() {
        let status =
            |tracer, filter| format!("Name:\tx\nTracerPid:\t{tracer}\nSeccomp:\t{filter}\n");
        let who = |tracer, filter| onlooker(&status(tracer, filter)).0;
        assert_eq!(who(0, 2), "a seccomp filter");
        assert_eq!(who(77, 0), "a tracer");
        assert!(who(0, 0).contains("auditd"));
    }
}
