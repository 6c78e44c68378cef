//! A child made by the calling thread itself, in its own memory, which waits until the child has
//! another one: as posix_spawn(3), with the steps of a server's child.
//!
//! What a child inherits it has from the caller then, as the kernel does it. What the child
//! must not do in this memory is become somebody else: whoever is that already could look into
//! it meanwhile, and the kernel makes the whole memory one that is not to be dumped.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_spawn_wire::child::{self, CPU_WORDS, CloneArgs, Job, LIMITS};
use kumiki_spawn_wire::sys::{
    self, CLONE, CLONE_CLEAR_SIGHAND, CLONE_INTO_CGROUP, CLONE_PIDFD, CLONE_VFORK, CLONE_VM,
    CLONE3, EINVAL, ENOSYS, EPERM,
};
use kumiki_spawn_wire::{BYTES, Header, MAKE, SENT};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap};
use rustix::process::Pid;

use crate::memory;
use crate::outcome::{Answer, Refused, pid_of};
use crate::request::{Draft, Maker};

/// Bytes below the stack, so that an overflow is a fault.
const GUARD: usize = 4096;
const STACK: usize = 64 << 10;
const ALL: usize = GUARD + STACK + BYTES;
/// A request with longer strings gives its pages back.
const KEPT: usize = 64 << 10;
/// Kept for the next children: as many as threads make some at once.
const SPARE: usize = 8;

/// The memory that the child begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum In {
    /// The memory itself: no page tables are copied.
    Caller,
    /// A copy, as fork(2)'s child, at a cost that grows with the caller: for a child that becomes
    /// somebody else where no server can be had.
    Copy,
}

/// Memory for a request and the child's stack.
struct Room(NonNull<u8>);

// SAFETY: a mapping, not bound to a thread.
unsafe impl Send for Room {}

static SPARES: Mutex<Vec<Room>> = Mutex::new(Vec::new());

impl Room {
    /// Another one where a spare one cannot be had at once: after fork(2) nobody may unlock.
    fn take() -> io::Result<Room> {
        let spare = SPARES.try_lock().ok().and_then(|mut spares| spares.pop());
        spare.map_or_else(|| Room::map(MapFlags::PRIVATE), Ok)
    }

    fn map(flags: MapFlags) -> io::Result<Room> {
        let flags = flags | MapFlags::NORESERVE;
        // SAFETY: a new mapping.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), ALL, ProtFlags::empty(), flags) }?;
        let room = Room(NonNull::new(at.cast()).expect("a mapping is not at 0"));
        // SAFETY: of this mapping, which nobody uses.
        unsafe { memory::open_unlocked(at, ALL) }?;
        // SAFETY: its first page, which nobody uses.
        unsafe { mprotect(at, GUARD, MprotectFlags::empty()) }?;
        Ok(room)
    }

    fn header(&self) -> NonNull<Header> {
        // SAFETY: within the mapping.
        unsafe { self.0.add(GUARD + STACK) }.cast()
    }

    /// Keeps it for the next child.
    fn give_back(self, used: usize) {
        if used > KEPT {
            // SAFETY: its own pages, of which nobody needs what they have.
            let freed =
                unsafe { madvise(self.header().as_ptr().cast(), BYTES, Advice::LinuxDontNeed) };
            if freed.is_err() {
                return;
            }
        }
        if let Ok(mut spares) = SPARES.try_lock() {
            if spares.len() < SPARE {
                spares.push(self);
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody uses it now.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), ALL) };
    }
}

/// Makes a child as `write` says, and its pidfd if `wants_pidfd`.
///
/// # Errors
/// As posix_spawn(3): what a call in the child was refused with.
pub(crate) fn spawn<'a>(
    place: In,
    wants_pidfd: bool,
    write: impl FnOnce(&mut Draft<'a>) -> io::Result<()>,
) -> Result<(Pid, Option<OwnedFd>), Refused> {
    let room = match place {
        In::Caller => Room::take(),
        // Of the copy the caller sees only what is shared.
        In::Copy => Room::map(MapFlags::SHARED),
    };
    let room = room.map_err(|error| Refused { error, step: Some(MAKE), lacks_server: false })?;
    // SAFETY: of the mapping, as long, and ours.
    let mut draft = unsafe { Draft::new(room.header(), Maker::Caller) };
    let made = write(&mut draft).and_then(|()| {
        let used = draft.len();
        Ok((draft.finish()?, used))
    });
    let (fds, used) = match made {
        Ok(made) => made,
        Err(error) => {
            if place == In::Caller {
                room.give_back(BYTES);
            }
            return Err(error.into());
        }
    };
    let numbers = fds.iter().map(AsRawFd::as_raw_fd);
    let mut places: Vec<i32> = [-1; SENT].into_iter().chain(numbers).collect();
    // SAFETY: written by `Draft::finish`, and there is no child yet.
    let cgroup = cgroup(unsafe { room.header().as_ref() }, &places);
    // From here on the places are the child's, which changes them by this pointer.
    let mut job = Job {
        header: room.header().as_ptr(),
        places: places.as_mut_ptr(),
        places_len: places.len(),
        limits: [None; LIMITS],
        parent: std::process::id() as i32,
        group: 0,
        cpus: ([0; CPU_WORDS], 0),
        mask: 0,
        has_handlers: false,
    };
    let mut pidfd = -1;
    let answer = make(&room, &mut job, cgroup, place, wants_pidfd.then_some(&mut pidfd));
    if place == In::Caller {
        room.give_back(used);
    }
    // SAFETY: the kernel has just opened it, for nobody else.
    let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    pid_of(answer).map(|pid| (pid, pidfd))
}

/// The descriptor of the cgroup that the child is to begin in; 0 if the caller's will do.
fn cgroup(header: &Header, places: &[i32]) -> u64 {
    match header.clone_flags & CLONE_INTO_CGROUP {
        0 => 0,
        _ => places[header.cgroup as usize] as u64,
    }
}

fn make(room: &Room, job: &mut Job, cgroup: u64, place: In, pidfd: Option<&mut i32>) -> Answer {
    // SAFETY: written by `Draft::finish`; the child writes to atomics only.
    let header = unsafe { room.header().as_ref() };
    header.errno.store(0, Relaxed);
    header.failed.store(0, Relaxed);
    let memory = if place == In::Caller { CLONE_VM } else { 0 };
    let wants = if pidfd.is_some() { CLONE_PIDFD } else { 0 };
    let pidfd = pidfd.map_or(0, |pidfd| &raw mut *pidfd as u64);
    let args = CloneArgs {
        flags: memory | CLONE_VFORK | CLONE_CLEAR_SIGHAND | wants | header.clone_flags,
        pidfd,
        child_tid: 0,
        // Where clone(2) stores the pidfd.
        parent_tid: pidfd,
        exit_signal: libc::SIGCHLD as u64,
        stack: room.0.as_ptr() as u64 + GUARD as u64,
        stack_size: STACK as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup,
    };
    let first = [&raw const args as usize, size_of::<CloneArgs>()];
    // Signals for the caller are not taken by the child, and none runs a handler in this memory.
    let mut before = 0u64;
    sys::block(u64::MAX, Some(&mut before));
    job.mask = before;
    // SAFETY: the stack is of this room, which nobody else has; the job stays until the child has
    // another memory (CLONE_VFORK), or begins in a copy of it.
    let mut made = unsafe { child::clone(CLONE3, first, &args, job) };
    // Older kernels, and filters that cannot look into clone3's arguments. What these ask for
    // clone(2) has, but for a cgroup: then the child drops the handlers itself.
    if [ENOSYS, EPERM, EINVAL].contains(&made) && args.flags >> 32 == CLONE_CLEAR_SIGHAND >> 32 {
        job.has_handlers = true;
        let flags = args.flags & !CLONE_CLEAR_SIGHAND | args.exit_signal;
        let first = [flags as usize, (args.stack + args.stack_size) as usize];
        // SAFETY: as above.
        made = unsafe { child::clone(CLONE, first, &args, job) };
    }
    sys::block(before, None);
    if made < 0 {
        return Answer { pid: None, errno: -made as i32, failed: MAKE };
    }
    Answer {
        pid: Pid::from_raw(made as i32),
        errno: header.errno.load(Relaxed),
        failed: header.failed.load(Relaxed),
    }
}
