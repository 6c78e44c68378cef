//! What the program's threads do at their calls, beside making them: as little as shows what is asked next.
//!
//! Quiet, the first calls and then one of seventeen are timed, and one folder of many is tried. Active, each use of a listed name is
//! counted. No call here changes `errno`, takes memory of the program, or waits: the kernel is called without the C
//! library in between, and locks are tried only.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock::{now, sleeps};
use crate::counts::{self, Count};
use crate::errno;
use crate::folder::{self, Warmth};
use crate::inbox::{BY_NAMES, BY_PATH, Visit, Want, Word};
use crate::pool;
use crate::probe::{self, InRead, Slept};
use crate::shared::Shared;
use crate::signals;
use crate::state::{self, Mode, State};
use crate::table::{ASKED_LIST, FOLDER, Key, Place, VISITED};
use crate::text::Text;
use crate::trial;
use crate::unlisted::Opening;
use crate::unnumbered::{self, At};
use crate::uses::{Seen, Use};

use rustix::fs::{CWD, Mode as FileMode, OFlags, SeekFrom, seek};

/// Calls of which one is timed while nothing is asked ahead: odd, as programs look at a file and open it, in turns.
const SAMPLE: u32 = 17;
/// First calls, which are all timed: an interpreter has slept in a few of them before it reads a package's folder.
const EACH: u32 = 512;
/// Slow openings in a row by which a folder is cold although its names are in memory.
const SLOW_OPENS: u8 = 3;
/// A call that took longer has slept, or others ran.
const SLEPT_NS: u64 = 50_000;
/// First folders, which are all tried; the next ones, of which those are whose number is a power of two. Later ones are
/// tried by `tried_of`.
const ALL_OF: u32 = 9;
const FIRST: u32 = 64;
/// Files opened to be read after which a sleep may have been for their contents.
const READS: u32 = 4;
/// Share of `tried_of` after which a slow call has a folder tried.
const SLOW_SHARE: u32 = 8;
/// Uses of which one tells the pool that there is room again.
const SAMPLED: u32 = 16;

/// A file that a call of the program has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) is_folder: bool,
}

impl Found {
    fn key(self) -> Key {
        Key::of(self.device, self.inode)
    }

    fn as_use(self) -> Use {
        if self.is_folder { Use::LookedAtFolder } else { Use::Looked }
    }
}

/// A call that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    state: &'static State,
    reason: Reason,
    began: u64,
}

/// Reason why a call is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Sample of calls, while nothing is asked ahead.
    Sample,
    /// Early call of the program.
    Early,
    /// The calls before have slept, while nothing is asked ahead.
    Followed,
    /// Names are asked ahead.
    Active,
}

/// Begins to watch a call, if it is to be watched.
#[inline]
pub(crate) fn begin() -> Option<Call> {
    let state = state::get()?;
    match state.mode() {
        Mode::Quiet => {
            let calls = state.shared.calls.load(Ordering::Relaxed).wrapping_add(1);
            // Two threads that count one call count it once.
            state.shared.calls.store(calls, Ordering::Relaxed);
            let reason = match calls % SAMPLE {
                _ if state.shared.unlisted.is_followed() => Reason::Followed,
                1 => Reason::Sample,
                _ if calls < EACH => Reason::Early,
                _ => return None,
            };
            Some(Call { state, reason, began: now() })
        }
        Mode::Active => Some(Call { state, reason: Reason::Active, began: now() }),
        _ => None,
    }
}

impl Call {
    /// The call has looked at a file by this path, and this is which.
    pub(crate) fn looked(self, found: Found, at: At<'_>) {
        let took = now().saturating_sub(self.began);
        match self.reason {
            Reason::Active => {
                let place = unnumbered::find(&self.state.shared, found.key(), at);
                self.count(took, place.map(|(_, place)| place), found.as_use());
            }
            Reason::Sample | Reason::Early | Reason::Followed => self.slow(took),
        }
    }

    /// The call has opened a file by this path, which begins at that folder of the program.
    pub(crate) fn opened(self, descriptor: c_int, at: c_int, path: &CStr, flags: c_int) {
        let took = now().saturating_sub(self.began);
        if self.reason != Reason::Active {
            if flags & (libc::O_ACCMODE | libc::O_DIRECTORY) == libc::O_RDONLY {
                // A guess, as two threads may count one.
                let reads = self.state.reads.load(Ordering::Relaxed);
                self.state.reads.store(reads.saturating_add(1), Ordering::Relaxed);
            }
            let slow = &self.state.slow_opens;
            let in_a_row =
                if took >= SLEPT_NS { slow.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
            slow.store(in_a_row, Ordering::Relaxed);
            self.slow(took);
            // A small folder was cold and worth no threads; and now each file of it is slow.
            let is_cold = in_a_row >= SLOW_OPENS
                && self.reason == Reason::Early
                && self.state.first_cold.load(Ordering::Relaxed) != 0;
            let reason = if is_cold { Reason::Followed } else { self.reason };
            return named_quietly(self.state, reason, descriptor, (at, path));
        }
        // SAFETY: the program's call has just opened it; where another thread has closed it already, the kernel
        // says so, or it is another file, and one use is counted for the wrong name.
        let open = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let Some((device, inode)) = folder::identity(open) else { return };
        let shared = &self.state.shared;
        let place = unnumbered::find(shared, Key::of(device, inode), At::new(at, path));
        if place.is_none() {
            entered(self.state, at, path);
        }
        self.count(took, place.map(|(_, place)| place), Use::Opened);
    }

    /// The call has failed.
    pub(crate) fn failed(self) {
        if self.reason != Reason::Active {
            self.slow(now().saturating_sub(self.began));
        }
    }

    fn slow(self, took: u64) {
        if took >= SLEPT_NS {
            self.state.due.store(1, Ordering::Relaxed);
        }
    }

    fn count(self, took: u64, place: Option<&Place>, what: Use) {
        if count(self.state, Some(took), place, what) {
            counts::add(Count::AheadCalls, 1);
            counts::add(Count::AheadNs, took);
        }
    }
}

/// Counts a use, and how long its call took, if it was one call; true if it was asked ahead.
fn count(state: &State, took: Option<u64>, place: Option<&Place>, what: Use) -> bool {
    let visit = state.shared.visits.load(Ordering::Relaxed);
    let Some(place) = place else {
        took.into_iter().for_each(other);
        return false;
    };
    match state.shared.uses.count(&state.shared.demand, place, what, visit) {
        Seen::Ahead => {
            match what {
                Use::Looked | Use::LookedAtFolder => counts::add(Count::Used, 1),
                Use::Opened => counts::add(Count::OpenedUsed, 1),
            }
            if is_sampled(&state.shared.calls) {
                state.shared.work.notify(1);
            }
            return true;
        }
        Seen::Wanted(kind) => {
            let listed = place.listed();
            tell(state, Word::Want(Want { folder: listed.folder, turn: listed.turn, kind }));
        }
        Seen::Nothing => {}
    }
    took.into_iter().for_each(|took| missed(state, took));
    false
}

/// A file that the C library has looked at within itself is handed to the program with this path.
pub(crate) fn handed_out(found: Found, at: At<'_>) {
    if let Some(state) = state::get()
        && state.mode() == Mode::Active
    {
        let place = unnumbered::find(&state.shared, found.key(), at);
        count(state, None, place.map(|(_, place)| place), found.as_use());
    }
}

fn missed(state: &State, took: u64) {
    if took >= SLEPT_NS {
        state.shared.missed.fetch_add(1, Ordering::Relaxed);
    }
    other(took);
}

fn other(took: u64) {
    counts::add(Count::OtherCalls, 1);
    counts::add(Count::OtherNs, took);
}

fn is_sampled(calls: &AtomicU32) -> bool {
    calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLED)
}

/// The program has opened a file by a name that no listed folder has. If its folder stands in a listed one, the program
/// goes into that by names, as an interpreter does which knows how its compiled modules are called.
fn entered(state: &State, begins_at: c_int, path: &CStr) {
    let Some(above) = folder::before_last(path.to_bytes()) else { return };
    let Some(key) = unnumbered::folder_of(&state.shared, begins_at, above) else { return };
    if state.shared.table.find(key).is_none() {
        if is_by_path(begins_at, path) {
            named(state, path);
        }
    } else if enter(&state.shared, key) {
        state.shared.work.notify(1);
    }
}

/// The program has opened a file in a folder of which nothing is known, while names are asked ahead.
fn named(state: &State, path: &CStr) {
    let unlisted = &state.shared.unlisted;
    if unlisted.has_slept(sleeps())
        && let Some(habit) = habit(state, path)
        && !tell_names(state, &habit)
    {
        unlisted.forget(habit.key);
    }
}

/// Watches while nothing is asked ahead. The call may be made anywhere: nothing waits, and threads are
/// started only where it is sure that no handler of a signal is under way.
#[cold]
fn named_quietly(state: &'static State, reason: Reason, opened: c_int, (at, path): (c_int, &CStr)) {
    if reason == Reason::Early {
        return;
    }
    let before = errno::get();
    let unlisted = &state.shared.unlisted;
    if !trial::is_allowed() {
        state.change(Mode::Quiet, Mode::Off);
    } else if reason == Reason::Sample {
        unlisted.sampled(sleeps());
    } else if at >= 0 && !path.to_bytes().contains(&b'/') {
        under_way(state, opened, at);
    } else if is_by_path(at, path)
        && unlisted.has_slept(sleeps())
        && let Some(habit) = habit(state, path)
    {
        // Another open folder for a moment, in the program's table: the pool is not there yet.
        let open = folder::open_unseen(habit.folder.as_c());
        let slept = slept_for(opened);
        let is_worth = open.is_some_and(|open| is_worth_a_start(state, open.as_fd(), slept));
        let is_told = is_worth
            && signals::are_without_handler()
            && pool::start(state)
            && tell_names(state, &habit);
        if !is_told {
            unlisted.forget(habit.key);
        }
    }
    errno::set(before);
}

/// The thread has slept between openings; this is the last one.
fn slept_for(opened: c_int) -> Slept {
    // SAFETY: the program's call has just opened it; another thread may have closed it, or opened another one.
    let is_slow = folder::is_read_slow(unsafe { BorrowedFd::borrow_raw(opened) });
    Slept { in_call: true, in_read: if is_slow { InRead::Now } else { InRead::No } }
}

/// The program has opened a name of a folder that it has open: tar in its one large folder, whose names were all in memory when
/// that was begun.
fn under_way(state: &'static State, opened: c_int, at: c_int) {
    let unlisted = &state.shared.unlisted;
    // SAFETY: the program's call has just begun at it.
    let folder = unsafe { BorrowedFd::borrow_raw(at) };
    if unlisted.has_slept(sleeps())
        && let Some((device, inode)) = folder::identity(folder)
        && unlisted.count(Key::of(device, inode)) == Opening::Habit
    {
        if is_worth_a_start(state, folder, slept_for(opened))
            && signals::are_without_handler()
            && pool::start(state)
        {
            let visits = state.shared.visits.load(Ordering::Relaxed);
            tell_of(state, folder, (Source::UnderWay(at), At::NONE), visits);
        } else {
            unlisted.forget(Key::of(device, inode));
        }
    }
}

/// True for a path that leads to the same file from the pool's threads.
fn is_by_path(at: c_int, path: &CStr) -> bool {
    at == libc::AT_FDCWD || path.to_bytes().first() == Some(&b'/')
}

/// A folder of which the program opens files by their names, again and again.
struct Habit {
    key: Key,
    folder: Text,
}

/// Counts an opening by this path, which begins at the root or the working folder: in its folder, and where that is a new one,
/// in the folder above. Gives the folder of which it has become a habit.
fn habit(state: &State, path: &CStr) -> Option<Habit> {
    let unlisted = &state.shared.unlisted;
    let mut folder = folder::before_last(path.to_bytes())?;
    let mut key = folder::key_of(CWD, folder)?;
    let mut opening = unlisted.count(key);
    if opening == Opening::First {
        folder = folder::before_last(folder.strip_suffix(b"/")?)?;
        key = folder::key_of(CWD, folder)?;
        opening = unlisted.count(key);
    }
    (opening == Opening::Habit).then_some(())?;
    Some(Habit { key, folder: Text::of_bytes(folder)? })
}

/// Tells of a folder whose names are worth knowing; false if nobody could be told.
fn tell_names(state: &State, habit: &Habit) -> bool {
    let key = habit.key;
    let visit = Visit { descriptor: BY_NAMES, key, place: key, is_under_way: false };
    let inbox = state.shared.inbox.try_lock();
    let is_told = inbox.is_ok_and(|mut inbox| inbox.push_path(habit.folder, visit));
    if is_told {
        state.shared.work.notify(1);
    }
    is_told
}

/// Tells of a folder that the program goes into by names; false if there is nothing to tell, or nobody could be told: then
/// the next name tells of it.
fn enter(shared: &Shared, key: Key) -> bool {
    let Some(place) = shared.table.find(key) else { return false };
    let is_new = || place.flags() & (FOLDER | VISITED | ASKED_LIST) == FOLDER;
    if !is_new() {
        return false;
    }
    let Ok(mut inbox) = shared.inbox.try_lock() else { return false };
    // Another thread may have told meanwhile.
    let is_told = is_new() && inbox.push(Word::Enter(key));
    if is_told {
        // Before the pool reads the word: what is listed then has been visited.
        shared.uses.visit(&shared.demand, place, shared.visits.load(Ordering::Relaxed));
    }
    is_told
}

/// Puts a word into the inbox, if nobody else is there and it has room.
fn tell(state: &State, word: Word) {
    if state.shared.inbox.try_lock().is_ok_and(|mut inbox| inbox.push(word)) {
        state.shared.work.notify(1);
    } else if let Word::Want(want) = word {
        // The next use says it.
        state.shared.uses.of(want.folder).into_iter().for_each(|uses| uses.unwanted(want.kind));
    }
}

/// Begins to watch the opening of a folder.
pub(crate) fn opening() -> u64 {
    now()
}

/// The program has opened a folder by this path since then.
pub(crate) fn opened_folder(began: u64, descriptor: c_int, at: At<'_>) {
    if now().saturating_sub(began) >= SLEPT_NS
        && let Some(state) = state::get()
    {
        state.due.store(1, Ordering::Relaxed);
    }
    visit(descriptor, at);
}

/// The program has a folder open whose names it is about to read. It may call its allocator now.
pub(crate) fn visit(descriptor: c_int, at: At<'_>) {
    let before = errno::get();
    see_open(descriptor, at);
    errno::set(before);
}

/// The program is about to have a folder listed by one call of the C library, which opens it within itself.
pub(crate) fn scans(path: *const c_char) {
    let before = errno::get();
    if let Some(state) = state::get()
        && !path.is_null()
    {
        // SAFETY: the program hands it on to the C library, which reads it as a text that ends with a zero.
        scan(state, unsafe { CStr::from_ptr(path) });
    }
    errno::set(before);
}

fn scan(state: &'static State, path: &CStr) {
    let Some(visit) = begins(state) else { return };
    // What sleeps here, the program's own call finds in memory. It is closed before that call.
    let Ok(open) = rustix::fs::open(path, SCANNED, FileMode::empty()) else { return };
    see(state, visit, open.as_fd(), (Source::By(path), At::here(path)));
}

fn see_open(descriptor: c_int, at: At<'_>) {
    let Some(state) = state::get() else { return };
    if descriptor < 0 {
        return;
    }
    let Some(visit) = begins(state) else { return };
    // SAFETY: the program's call has just opened it, or has been given it.
    let open = unsafe { BorrowedFd::borrow_raw(descriptor) };
    see(state, visit, open, (Source::Open(descriptor), at));
}

/// Permission to start threads in a call: only where the program may itself call its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Too,
    Not,
}

/// The program is about to read names of a folder that it has open, from the first one on or in between.
pub(crate) fn reads(descriptor: c_int, start: Start) {
    let before = errno::get();
    if let Some(state) = state::get()
        && descriptor >= 0
        && (start == Start::Too || state.mode() == Mode::Active)
        && matches!(state.mode(), Mode::Quiet | Mode::Active)
    {
        if trial::is_allowed() {
            // SAFETY: the program's call is about to read it, and says itself if it is none.
            let open = unsafe { BorrowedFd::borrow_raw(descriptor) };
            if seek(open, SeekFrom::Current(0)) == Ok(0) {
                see_open(descriptor, At::NONE);
            }
        } else {
            state.change(Mode::Quiet, Mode::Off);
        }
    }
    errno::set(before);
}

/// The way to a folder, as the pool is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source<'path> {
    Open(c_int),
    /// A folder by its descriptor, after some of its names.
    UnderWay(c_int),
    By(&'path CStr),
}

const SCANNED: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// A folder that the program begins to read, and that is to be looked at.
#[derive(Clone, Copy, Debug)]
struct FirstRead {
    /// Number of the visit.
    visits: u32,
    /// True if it is tried whether something has slept or not.
    is_turn: bool,
}

/// Counts the visit of a folder; none if nothing is to be done for it.
fn begins(state: &State) -> Option<FirstRead> {
    let visits = state.shared.visits.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    match state.mode() {
        Mode::Quiet => {
            let tried_of = state.shared.demand.tried_of();
            let is_turn = match visits {
                0..ALL_OF => true,
                ALL_OF..FIRST => visits.is_power_of_two(),
                _ => visits.is_multiple_of(tried_of),
            };
            let is_slow = state.due.load(Ordering::Relaxed) != 0
                && (visits < FIRST || visits.is_multiple_of(tried_of / SLOW_SHARE));
            (is_turn || is_slow).then_some(FirstRead { visits, is_turn })
        }
        Mode::Active => Some(FirstRead { visits, is_turn: true }),
        _ => None,
    }
}

fn see(
    state: &'static State,
    first: FirstRead,
    open: BorrowedFd<'_>,
    source: (Source<'_>, At<'_>),
) {
    let FirstRead { visits, is_turn } = first;
    match state.mode() {
        Mode::Quiet => {
            if !trial::is_allowed() {
                return state.change(Mode::Quiet, Mode::Off);
            }
            // Of another thread it is another count: then it is a guess.
            let sleeps = sleeps() as u32;
            let has_slept = state.sleeps.swap(sleeps, Ordering::Relaxed) != sleeps;
            let in_call = state.due.swap(0, Ordering::Relaxed) != 0 && has_slept
                || state.shared.settings.is_echo;
            if !is_turn && !in_call {
                return;
            }
            let may_have_read = has_slept && state.reads.load(Ordering::Relaxed) >= READS;
            let in_read = if may_have_read { InRead::Maybe } else { InRead::No };
            if may_have_read {
                state.reads.store(0, Ordering::Relaxed);
            }
            let slept = Slept { in_call, in_read };
            if is_worth_a_start(state, open, slept) && pool::start(state) {
                tell_of(state, open, source, visits);
            }
        }
        // It was ended while it was begun.
        Mode::Active if !state.threads.life.is_there() => state.change(Mode::Active, Mode::Quiet),
        Mode::Active => tell_of(state, open, source, visits),
        _ => return,
    }
    counts::add(Count::Visits, 1);
}

/// True for a cold folder that is large, or the second one: the threads cost more than a small one's names.
fn is_worth_a_start(state: &State, open: BorrowedFd<'_>, slept: Slept) -> bool {
    if state.shared.settings.is_all_cold {
        return true;
    }
    let found = probe::probe(open, slept);
    // Attributes came with the listing, and each opening is asked of a server.
    let is_cold = match found.warmth {
        Warmth::Cold => true,
        Warmth::Warm => slept.in_call && state.slow_opens.load(Ordering::Relaxed) >= SLOW_OPENS,
        Warmth::Unknown => false,
    };
    if !is_cold {
        return false;
    }
    let had_cold = state.first_cold.load(Ordering::Relaxed) != 0;
    if !found.is_large && !had_cold {
        let key =
            folder::identity(open).map_or(0, |(device, inode)| Key::of(device, inode).as_number());
        state.first_cold.store(key, Ordering::Relaxed);
        return false;
    }
    true
}

fn tell_of(state: &State, open: BorrowedFd<'_>, (source, at): (Source<'_>, At<'_>), visits: u32) {
    let Some((device, inode)) = folder::identity(open) else { return };
    let key = Key::of(device, inode);
    let place = unnumbered::key_of_visited(&state.shared, key, at);
    if let Some(place) = state.shared.table.find(place) {
        state.shared.uses.visit(&state.shared.demand, place, visits);
    }
    let visit = |descriptor| {
        let is_under_way = source == Source::UnderWay(descriptor);
        Visit { descriptor, key, place, is_under_way }
    };
    match source {
        Source::Open(descriptor) | Source::UnderWay(descriptor) => {
            tell(state, Word::Visit(visit(descriptor)));
        }
        Source::By(path) => {
            if let (Some(path), Ok(mut inbox)) = (Text::of(path), state.shared.inbox.try_lock()) {
                inbox.push_path(path, visit(BY_PATH));
                drop(inbox);
                state.shared.work.notify(1);
            }
        }
    }
}

/// The process is about to change what its threads must not share: they end first.
pub(crate) fn end_pool() {
    if let Some(state) = state::get() {
        let before = errno::get();
        pool::end(state, Mode::Quiet);
        errno::set(before);
    }
}

/// The process is about to confine itself: nothing is done any more, here and in what it forks.
pub(crate) fn turn_off() {
    state::turn_off();
    if let Some(state) = state::initialized() {
        let before = errno::get();
        pool::end(state, Mode::Off);
        errno::set(before);
    }
}

/// The process may be about to confine itself: no thread takes a request from now on. Those under way are not waited for.
pub(crate) fn rest() {
    state::turn_off();
}

/// The program removes or renames something. What is being looked at meanwhile is kept under another name by file systems
/// of a network, and its folder is not empty then: from now on nothing of these is asked ahead.
pub(crate) fn removes() {
    let Some(state) = state::get() else { return };
    let removes = &state.shared.removes;
    if removes.load(Ordering::Relaxed) == 0 && removes.swap(1, Ordering::AcqRel) == 0 {
        end_pool();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Listed;

    #[test]
    fn a_folder_that_nobody_could_be_told_of_is_told_by_its_next_name() {
        let shared = Shared::boxed();
        let key = Key::of(1, 2);
        let listed = Listed { folder: 0, turn: 0, position: 0 };
        shared.table.put(key, listed, FOLDER);
        let visited = || shared.table.find(key).unwrap().flags() & VISITED != 0;
        // The pool reads its words.
        let inbox = shared.inbox.lock().unwrap();
        assert!(!enter(&shared, key) && !visited());
        drop(inbox);
        // There is no room.
        let word =
            |descriptor| Word::Visit(Visit { descriptor, key, place: key, is_under_way: false });
        let fill = |inbox: &mut crate::inbox::Inbox| (0..).find(|at| !inbox.push(word(*at)));
        let filled = fill(&mut shared.inbox.lock().unwrap()).unwrap();
        assert!(!enter(&shared, key) && !visited());
        (0..filled).for_each(|_| _ = shared.inbox.lock().unwrap().pop());
        assert!(enter(&shared, key) && visited());
        assert_eq!(shared.inbox.lock().unwrap().pop(), Some(Word::Enter(key)));
        // Once.
        assert!(!enter(&shared, key));
    }
}
