//! All that the library knows in one mapping, which a forked child finds empty (`MADV_WIPEONFORK`): it begins
//! anew, whatever locks its parent's other threads held. A child of vfork shares it; its calls do not change
//! who is asked, as only the process that has begun the state starts threads.
//!
//! The program's threads only load, add and try locks here, so that a hook in a signal handler, which may have
//! interrupted one, waits for nobody.

use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use kumiki_wait::EventCount;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Pid, getpid};

use crate::heap::{self, Heap};
use crate::inbox::Inbox;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::threads::Threads;
use crate::walk::Walk;

/// Address space of the region; what is not used of it is never touched.
const REGION_BYTES: usize = 8 << 20;
/// Length of the part that is no heap.
const STATE_BYTES: usize = size_of::<State>().next_multiple_of(4096);
const _: () = assert!(STATE_BYTES < REGION_BYTES / 2);

/// Set once for this process and all that it forks: outside of the region, which those find empty.
static OFF: AtomicBool = AtomicBool::new(false);

static REGION: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());

/// Work of the hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Nothing was begun here: a forked child. Zero, as the kernel leaves it.
    Unborn = 0,
    /// Somebody is about to begin.
    Beginning = 1,
    /// Nothing cold was found: a folder is tried now and then.
    Quiet = 2,
    /// The pool is told of each folder and asks ahead.
    Active = 3,
    /// Nothing any more.
    Off = 4,
}

/// State of one process.
#[derive(Debug)]
pub(crate) struct State {
    mode: AtomicU8,
    /// Process that began it.
    owner: AtomicU32,
    /// One if a call was slow since the last try: the next folder is tried.
    pub(crate) due: AtomicU8,
    /// Files that were opened slowly one after the other, of those that were timed.
    pub(crate) slow_opens: AtomicU8,
    /// Files opened to be read, of the calls that are watched, since their contents were tried last.
    pub(crate) reads: AtomicU32,
    /// Number of times that the thread had slept that tried a folder last.
    pub(crate) sleeps: AtomicU32,
    /// Key of the first folder that was found cold and was worth no threads; zero if there is none.
    pub(crate) first_cold: AtomicU64,
    pub(crate) shared: Shared,
    pub(crate) walk: Mutex<Walk>,
    pub(crate) threads: Threads,
    heap: Heap,
}

impl State {
    pub(crate) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Unborn,
            1 => Mode::Beginning,
            2 => Mode::Quiet,
            3 => Mode::Active,
            _ => Mode::Off,
        }
    }

    /// Goes from one mode to another, unless it is in a third one.
    pub(crate) fn change(&self, from: Mode, to: Mode) {
        let (from, to) = (from as u8, to as u8);
        // The order is that of what `begin` wrote; nothing else hangs on it.
        let _ = self.mode.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Release);
    }

    /// True in the process that has begun this state, and in no child of vfork.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == number(getpid())
    }
}

fn number(process: Pid) -> u32 {
    process.as_raw_nonzero().get().unsigned_abs()
}

/// Has nothing be done any more, here and in forked children: no system call, and no look at the state.
pub(crate) fn turn_off() {
    OFF.store(true, Ordering::Release);
}

pub(crate) fn is_off() -> bool {
    OFF.load(Ordering::Acquire)
}

/// Maps the region and begins. Without it (an old kernel, a limit of address space) nothing is ever done.
pub(crate) fn open() {
    if !REGION.load(Ordering::Acquire).is_null() {
        return;
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, wherever there is room.
    let made = unsafe {
        mmap_anonymous(ptr::null_mut(), REGION_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags)
    };
    let Ok(made) = made else { return };
    // SAFETY: the whole mapping, of which nobody knows yet.
    if unsafe { madvise(made, REGION_BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        close(made);
        return;
    }
    // Few pages of it are used: a huge one would have to be cleared first.
    // SAFETY: as above.
    let _ = unsafe { madvise(made, REGION_BYTES, Advice::LinuxNoHugepage) };
    let state: *mut State = made.cast();
    if REGION.compare_exchange(ptr::null_mut(), state, Ordering::AcqRel, Ordering::Acquire).is_err()
    {
        close(made);
        return;
    }
    // SAFETY: a field of the state, within the region.
    heap::take_from(unsafe { &raw mut (*state).heap });
    begin(state);
}

fn close(made: *mut c_void) {
    // SAFETY: it was mapped just now, and nobody has its address.
    let _ = unsafe { munmap(made, REGION_BYTES) };
}

/// The state, begun anew in a forked child; none while somebody else begins it.
pub(crate) fn get() -> Option<&'static State> {
    if is_off() {
        return None;
    }
    let state = REGION.load(Ordering::Acquire);
    if state.is_null() {
        return None;
    }
    // SAFETY: the region is mapped for ever, and all zeros are an atomic byte.
    let mode = unsafe { &*mode_of(state) };
    match mode.load(Ordering::Acquire) {
        0 => begin(state),
        1 => return None,
        _ => {}
    }
    if mode.load(Ordering::Acquire) == Mode::Beginning as u8 {
        return None;
    }
    // SAFETY: it is begun, and from then on only shared references to it are made.
    Some(unsafe { &*state })
}

/// The state of this process, if it has begun one; also when it is off.
pub(crate) fn initialized() -> Option<&'static State> {
    let state = REGION.load(Ordering::Acquire);
    if state.is_null() {
        return None;
    }
    // SAFETY: as in `get`.
    let mode = unsafe { &*mode_of(state) }.load(Ordering::Acquire);
    let is_begun = mode != Mode::Unborn as u8 && mode != Mode::Beginning as u8;
    // SAFETY: it is begun, and only shared references to it are made.
    is_begun.then(|| unsafe { &*state })
}

/// Place of a state's mode.
fn mode_of(state: *mut State) -> *const AtomicU8 {
    // SAFETY: within the region, of which the state is the beginning.
    unsafe { &raw const (*state).mode }
}

/// Writes what is not right as zeros; the tables, which are, stay untouched memory.
fn begin(state: *mut State) {
    // SAFETY: as in `get`.
    let mode = unsafe { &*mode_of(state) };
    let (unborn, beginning) = (Mode::Unborn as u8, Mode::Beginning as u8);
    if mode.compare_exchange(unborn, beginning, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return;
    }
    macro_rules! write {
        ($($($field:ident).+: $value:expr,)*) => { $(
            // SAFETY: a field of the state, within the region; who has changed the mode is alone with it.
            unsafe { (&raw mut (*state).$($field).+).write($value) };
        )* };
    }
    let from = state.expose_provenance();
    let settings = Settings::read();
    write! {
        owner: AtomicU32::new(number(getpid())),
        heap: Heap::new(from.wrapping_add(STATE_BYTES), from.wrapping_add(REGION_BYTES)),
        shared.settings: settings,
        shared.inbox: Mutex::new(Inbox::new()),
        shared.work: EventCount::new(),
        walk: Mutex::new(Walk::new()),
        threads: Threads::new(),
    }
    let mode_then = if settings.threads == 0 { Mode::Off } else { Mode::Quiet };
    mode.store(mode_then as u8, Ordering::Release);
}
