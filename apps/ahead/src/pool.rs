//! Threads that ask. They are begun at the first cold folder, by the program's thread that found it, and stay until
//! the process ends.
//!
//! What is theirs alone: all signals blocked, so that the program's are taken by its own threads; a table of
//! descriptors of their own (`close_range` with CLOSE_RANGE_UNSHARE: from its first instruction on nothing
//! of the program's is held open); small stacks; the memory of this library's region. What they share with
//! the program: its user, as setuid of the C library reaches each of its threads, its root and working folder,
//! its scheduling.
//!
//! One thread has the others made, so that they have its table. The program's thread waits for that,
//! as making threads may call its allocator, which may be one for a single thread.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{Mode as FileMode, OFlags};
use rustix::process::{Resource, getrlimit};

use crate::clock::{now, sleeps};
use crate::counts::{self, Count};
use crate::demand::Kind;
use crate::folder::{self, Contents, Folder, Listing};
use crate::inbox::{BY_NAMES, BY_PATH};
use crate::kept::Finding;
use crate::life::Claim;
use crate::real;
use crate::room;
use crate::signals::{to_its_end, without_signals};
use crate::state::{self, Mode, State};
use crate::uses::Way;
use crate::walk::{Task, Walk};
use crate::worth;

/// Bytes of a thread's stack; the C library may ask for more.
const STACK_BYTES: [usize; 3] = [128 << 10, 512 << 10, 2 << 20];
/// Share of the limit of descriptors that the pool has open at most, and the least.
const SHARE: u64 = 10;
const LEAST_OPEN: u64 = 4;
/// Time that the end of all threads is waited for, and of each.
const JOIN: Duration = Duration::from_secs(1);
const JOIN_LEAST: Duration = Duration::from_millis(5);
/// Time without a use or a visit after which no folder stays open.
const IDLE: Duration = Duration::from_millis(250);
/// Requests for contents of which one looks how much memory is left.
const LOOKED_OF: u32 = 512;
/// Time that a joined thread is waited for.
const GONE_TRIES: u32 = 10_000;
const GONE_STEP: Duration = Duration::from_micros(100);
/// Descriptors of the pool beside its folders': one a thread, and /proc/self/fd.
const OTHERS_OPEN: u64 = 4;

/// Starts the pool in this thread of the program, or finds that it runs; true if it does.
///
/// Only where the program may itself call its allocator: in `opendir`.
pub(crate) fn start(state: &'static State) -> bool {
    if !state.is_own() {
        return false;
    }
    let is_there = match state.threads.life.claim() {
        // Somebody may have turned it off before the claim: from now on they wait for it.
        Claim::Mine if state.mode() != Mode::Quiet => {
            state.threads.life.ended(true);
            false
        }
        Claim::Mine => to_its_end(|| begin(state)),
        Claim::There => true,
        Claim::No => false,
    };
    if is_there {
        state.change(Mode::Quiet, Mode::Active);
    }
    is_there
}

/// Makes the threads. A pool that cannot be made is not tried again.
fn begin(state: &'static State) -> bool {
    // A handler that left this by a jump would leave the pool half made.
    without_signals(|| {
        let Some(made) = make(chief) else {
            state.threads.life.tell(false);
            return false;
        };
        state.threads.add(made);
        let is_there = state.threads.life.is_made();
        match is_there {
            true => counts::add(Count::Pools, 1),
            false => state.threads.take().for_each(|thread| _ = join(thread, Instant::now())),
        }
        is_there
    })
}

/// Ends the pool and waits for its threads. Where one does not come back in time, its disk does not answer: it takes no
/// further request, and no pool is made again.
pub(crate) fn end(state: &'static State, then: Mode) {
    if state.is_own() {
        // The waits for its threads are points at which this one might be cancelled.
        to_its_end(|| end_all(state, then));
    }
}

fn end_all(state: &'static State, then: Mode) {
    // Nobody starts it from now on.
    state.set(Mode::Off);
    if state.threads.life.is_to_end() {
        state.shared.work.notify(u32::MAX);
        let until = Instant::now() + JOIN;
        let mut is_gone = true;
        for thread in state.threads.take() {
            // Each, also after one that has not ended.
            is_gone &= join(thread, until);
        }
        if is_gone {
            state.threads.leave().for_each(gone);
            if let Ok(mut walk) = state.walk.lock() {
                walk.forget(&state.shared);
            }
        }
        state.threads.life.ended(is_gone);
    }
    state.set(then);
}

/// Waits for a thread, until then or a moment; true if it has ended.
fn join(thread: libc::pthread_t, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now()).max(JOIN_LEAST);
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: room for a time.
    if unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, time.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: it was written.
    let mut time = unsafe { time.assume_init() };
    let ns = i64::from(left.subsec_nanos()) + time.tv_nsec;
    time.tv_sec += left.as_secs() as i64 + ns / 1_000_000_000;
    time.tv_nsec = ns % 1_000_000_000;
    // SAFETY: a thread that was made here and is joined by the one who has taken it.
    unsafe { libc::pthread_timedjoin_np(thread, ptr::null_mut(), &raw const time) == 0 }
}

/// Waits until the kernel has no such thread of this process any more: one that was joined may be about to end, and a call
/// that takes no threads would find it.
fn gone(thread: i32) {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    for _ in 0..GONE_TRIES {
        // SAFETY: a call by number, which sends no signal and looks for a thread.
        if unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) } != 0 {
            return;
        }
        std::thread::sleep(GONE_STEP);
    }
}

type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// Makes a thread; none where the machine has no room for it.
fn make(body: Body) -> Option<libc::pthread_t> {
    STACK_BYTES.iter().find_map(|bytes| {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: room for attributes.
        if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
            return None;
        }
        let mut thread: libc::pthread_t = 0;
        // The program's thread-local data is part of a stack.
        // SAFETY: attributes that were begun.
        let least = unsafe { real::__pthread_get_minstack(attributes.as_ptr()) };
        // SAFETY: attributes that were begun.
        let mut error =
            unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), *bytes + least) };
        if error == 0 {
            // SAFETY: attributes that were begun, and a body that takes no argument.
            error = unsafe {
                libc::pthread_create(&mut thread, attributes.as_ptr(), body, ptr::null_mut())
            };
        }
        // SAFETY: attributes that were begun and are not used again.
        unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
        (error == 0).then_some(thread)
    })
}

/// Gives the calling thread a table of descriptors with nothing in it.
fn own_descriptors() -> bool {
    // SAFETY: a call by number: closes what is in the new table of this thread, which nothing of it uses.
    let closed =
        unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
    closed == 0
}

fn name_thread() {
    let _ = rustix::thread::set_name(c"kumiki-ahead");
}

/// The thread that makes the others, which have its table of descriptors, and then works as they do.
extern "C" fn chief(_: *mut c_void) -> *mut c_void {
    let Some(state) = state::initialized() else { return ptr::null_mut() };
    name_thread();
    state.threads.enter();
    let is_prepared = prepare(state);
    state.threads.life.tell(is_prepared);
    if is_prepared {
        // The program, which has waited until here, is not to wait for what others may serve.
        look_for_room(state);
        work(state);
    }
    ptr::null_mut()
}

fn prepare(state: &'static State) -> bool {
    if !own_descriptors() {
        return false;
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let threads = u64::from(state.shared.settings.threads);
    // The table is the pool's own; the share is of what all of the machine may have open.
    let open = (limit / SHARE).max(LEAST_OPEN).min(limit.saturating_sub(threads + OTHERS_OPEN));
    // Without /proc, as after a chroot, there is no way to a folder of the program.
    if open == 0 || descriptors_of_program().is_none() {
        return false;
    }
    let is_prepared = state
        .walk
        .lock()
        .is_ok_and(|mut walk| walk.prepare(usize::try_from(open).unwrap_or(usize::MAX)));
    if !is_prepared {
        return false;
    }
    for _ in 1..room::threads(threads) {
        let Some(thread) = make(worker) else { break };
        state.threads.add(thread);
    }
    true
}

/// Has less be asked ahead where memory is short.
fn look_for_room(state: &State) {
    let room = room::ahead();
    state.shared.bytes.store(room.bytes.min(state.shared.settings.bytes), Ordering::Relaxed);
    state.shared.names.store(room.names.min(state.shared.settings.names), Ordering::Relaxed);
}

extern "C" fn worker(_: *mut c_void) -> *mut c_void {
    name_thread();
    if let Some(state) = state::initialized() {
        state.threads.enter();
        work(state);
    }
    ptr::null_mut()
}

/// The program's descriptors, by name.
fn descriptors_of_program() -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc/self/fd", flags, FileMode::empty()).ok()
}

/// Makes requests until the pool ends.
fn work(state: &'static State) {
    let Some(descriptors) = descriptors_of_program() else { return };
    let (life, work) = (&state.threads.life, &state.shared.work);
    loop {
        // In this order, which the model has: an end that is not seen has not changed the count yet.
        let seen = work.look();
        if life.is_over() {
            return;
        }
        // A process that is off asks nothing, and its threads sleep.
        if state::is_off() {
            work.sleep(seen, None);
            continue;
        }
        let taken = state.walk.lock().map(|mut walk| {
            let task = walk.take(&state.shared);
            let is_keeper = task.is_none() && walk.keep(&state.shared);
            (task, is_keeper)
        });
        match taken {
            Ok((Some(task), _)) => {
                // There may be more of it, for one more.
                work.notify(1);
                make_request(state, descriptors.as_fd(), task);
            }
            Ok((None, true)) => {
                let is_late = work.sleep(seen, Some(Instant::now() + IDLE));
                // Where there was no room nothing is asked, and so nothing else would look again.
                if is_late {
                    look_for_room(state);
                }
                if let Ok(mut walk) = state.walk.lock() {
                    walk.kept(&state.shared, is_late);
                }
            }
            Ok((None, false)) => _ = work.sleep(seen, None),
            Err(_) => return,
        }
    }
}

/// Has the hooks be quiet again, where everything is in memory.
fn rest(state: &State, walk: &mut Walk, slept_ns: u64, kind: Kind) {
    walk.took(slept_ns, kind);
    if walk.is_all_warm() && !state.shared.settings.is_all_cold {
        // It was in vain: the next try is later.
        state.shared.demand.wait_longer();
        state.change(Mode::Active, Mode::Quiet);
    }
}

/// The first cold folder, which was worth no threads by itself, if this one is in it: the program is about to go into its
/// others, too.
fn first_above(state: &State, folder: &Folder) -> Option<(Folder, Listing)> {
    let first = state.first_cold.swap(0, Ordering::Relaxed);
    if first == 0 || first == folder.key.as_number() {
        return None;
    }
    let above = folder::above_of(folder.open.as_fd(), first)?;
    let listing = folder::list(above.open.as_fd());
    Some((above, listing))
}

fn make_request(state: &State, descriptors: BorrowedFd<'_>, task: Task) {
    let (began, before) = (now(), sleeps());
    let slept_ns = || if sleeps() == before { 0 } else { now().saturating_sub(began) };
    match task {
        Task::Begin(visit) => {
            let path = || state.shared.inbox.lock().ok().and_then(|mut inbox| inbox.take_path());
            let (folder, way) = match visit.descriptor {
                BY_PATH => (path().and_then(|path| folder::by_path(path.as_c())), Way::Listed),
                BY_NAMES => (path().and_then(|path| folder::by_names(path.as_c())), Way::Named),
                descriptor => (folder::of_program(descriptors, descriptor), Way::Listed),
            };
            let Some(folder) = folder else { return };
            // Its number may be another folder's by now, which has told of itself.
            let removes = state.shared.removes.load(Ordering::Relaxed) != 0;
            if folder.key != visit.key || removes && folder::keeps_removed(folder.open.as_fd()) {
                return;
            }
            let above = first_above(state, &folder);
            let listing = folder::list(folder.open.as_fd());
            let slept_ns = slept_ns();
            if let Ok(mut walk) = state.walk.lock() {
                if let Some((above, listing)) = above {
                    walk.take_in_visited(&state.shared, (above, listing), Way::Listed, false);
                    walk.came_from(&state.shared, folder.key);
                }
                walk.take_in_visited(&state.shared, (folder, listing), way, visit.is_under_way);
                rest(state, &mut walk, slept_ns, Kind::Folders);
            }
        }
        Task::Below { above, descriptor, name, key, way } => {
            // SAFETY: the folder above keeps it open while it is busy, which `finished` ends.
            let open = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let found = folder::below(open, name.as_c());
            let found = found.map(|folder| {
                let listing = folder::list(folder.open.as_fd());
                (folder, listing)
            });
            let slept_ns = slept_ns();
            if let Ok(mut walk) = state.walk.lock() {
                walk.listed_below(&state.shared, above, key);
                match found {
                    Some(found) => {
                        walk.listed(&state.shared, key, found, way);
                        rest(state, &mut walk, slept_ns, Kind::Folders);
                    }
                    None => state.shared.demand.lists.left(1),
                }
            }
        }
        Task::Ask { folder, descriptor, name, kind, untold, tries, tells } => {
            // SAFETY: as above.
            let open = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let found = tries.map(|device| {
                let found = folder::try_kept(open, name.as_c()).unwrap_or(Finding::Unknown);
                if let Ok(mut walk) = state.walk.lock() {
                    walk.kept.set(device, found);
                }
                found
            });
            let mut spared_ns = 0;
            let is_folder = match kind {
                Kind::Contents => {
                    let contents = match found {
                        Some(Finding::Forgotten) => Contents::default(),
                        _ => folder::ask_contents(open, name.as_c(), tells),
                    };
                    let bytes = contents.bytes;
                    if state.shared.demand.contents.read(bytes).is_multiple_of(LOOKED_OF) {
                        look_for_room(state);
                    }
                    counts::add(Count::Bytes, bytes);
                    if contents.were_cold {
                        spared_ns = worth::SLEPT_NS;
                    }
                    contents.is_folder
                }
                _ => folder::ask(open, name.as_c()),
            };
            let slept_ns = slept_ns().max(spared_ns);
            if let Ok(mut walk) = state.walk.lock() {
                walk.finished(folder);
                if let Some(position) = untold {
                    walk.learnt(&state.shared, folder, position, is_folder);
                }
                rest(state, &mut walk, slept_ns, kind);
            }
        }
    }
}
