//! A desk: where one server serves the requests of many requesters.
//!
//! ```text
//!  caller a ── lane of LINES lines ──┐
//!  caller b ── lane of LINES lines ──┼──▶ server: one request of each lane in turn
//!  caller c ── lane of LINES lines ──┘    sleeps at the desk's one bell
//! ```
//!
//! Each [`Caller`] has a lane of its own, so that no two requesters write to one line;
//! its requests are served in their order, and no lane waits for more than one request
//! of each other lane. A server that ends answers what has come before, and dies with an
//! answer, too: see `fate.rs`.
//!
//! ```
//! use kumiki_wait::{Policy, Waiter};
//!
//! let (door, server) = kumiki_resource::desk::open();
//! let thread = std::thread::spawn(move || {
//!     let mut waiter = Waiter::new(&Policy::default()).unwrap();
//!     server.serve(&mut waiter);
//! });
//! let mut caller = door.caller(Waiter::new(&Policy::default())?);
//!
//! let numbers = [1, 2, 3];
//! assert_eq!(caller.call(|| numbers.iter().sum::<u32>()).unwrap(), 6);
//! let answers: Vec<_> = (0..10).map(|i| caller.submit(move || i * i).unwrap()).collect();
//! let squares: Result<Vec<u32>, _> = answers.into_iter().map(|a| caller.join(a)).collect();
//! assert_eq!(squares.unwrap()[9], 81);
//!
//! door.close();
//! thread.join().unwrap();
//! assert!(matches!(caller.call(|| 1), Err(kumiki_resource::desk::Error::Gone)));
//! # Ok::<(), kumiki_wait::Error>(())
//! ```

mod answer;
mod caller;
mod door;
mod error;
mod fate;
mod first_look;
mod member;
mod primitive;
mod seat;
mod server;

pub use answer::Answer;
pub use caller::Caller;
pub use door::{Door, open};
pub use error::{Error, Panic};
pub(crate) use member::{Member, enter_roll};
pub use server::{Server, Serving};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use kumiki_sys::fork::Process;
use kumiki_sys::life::Life;
use kumiki_sys::signals::with_signals_blocked;
use kumiki_wait::Bell;

use self::fate::Fate;
use self::primitive::AtomicU64;
use self::seat::Seat;

/// Requests that one caller may have under way.
pub const LINES: usize = 32;

/// Bytes of the watch's stack: it does nothing but wait.
const STACK: usize = 64 << 10;

/// The thread that looks on behalf of tasks that only await answers: it waits for the end of
/// the server's. There is one once an answer has been awaited, and not before.
#[derive(Debug, Default)]
struct Watch {
    /// An answer was awaited.
    is_wanted: AtomicBool,
    /// True if there is a thread to be watched.
    has_begun: AtomicBool,
    /// True if there was no thread to be had for it.
    has_failed: AtomicBool,
    is_armed: Mutex<bool>,
}

/// Words that callers and their server share. Aligned, so that its fields, which the server looks
/// at all the time, are in other lines than the count of its owners.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Desk {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Number of changes to `seats`. The server looks at this one word before each round.
    pub(crate) changes: AtomicU64,
    /// The server sleeps here.
    pub(crate) bell: Arc<Bell>,
    pub(crate) fate: Fate,
    life: Life,
    watch: Watch,
    /// Process of its server, if it is to be known.
    process: Option<Process>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Desk {
            seats: Mutex::default(),
            changes: AtomicU64::new(0),
            bell: Arc::new(Bell::new()),
            fate: Fate::new(),
            life: Life::default(),
            watch: Watch::default(),
            process: Process::current().ok(),
        }
    }

    /// Server: the calling thread serves from now on, and its death is noticed.
    pub(crate) fn begin(self: &Arc<Self>) {
        self.life.begin();
        // SeqCst: partner is `watch`.
        self.watch.has_begun.store(true, Ordering::SeqCst);
        if self.watch.is_wanted.load(Ordering::SeqCst) && !self.arm() {
            self.ask_again();
        }
    }

    /// Server: it serves no more; `begun` if its thread lives, as far as callers know.
    pub(crate) fn end(&self, begun: bool) {
        // Requesters take back what is left: nothing after `Fate::end`, but what came later.
        self.fate.has_ended();
        self.wake_all();
        if begun {
            self.life.end();
        }
    }

    /// A seat of a further caller, who sleeps at `bell`.
    pub(crate) fn seat(self: &Arc<Self>, bell: Arc<Bell>) -> Arc<Seat> {
        let seat = Arc::new(Seat::new(Arc::clone(self), bell));
        if self.is_elsewhere() {
            // Nobody would take it up, and another thread of the parent may have had the lock.
            return seat;
        }
        let mut seats = self.seats();
        // Of one that is gone nobody would take it off the list.
        if !self.fate.is_over() {
            seats.push(Arc::clone(&seat));
        }
        drop(seats);
        self.changed();
        seat
    }

    pub(crate) fn seats(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The server is to look at the list of seats.
    pub(crate) fn changed(&self) {
        // Release: partner is the server's load, which comes before its look at the list.
        self.changes.fetch_add(1, Ordering::Release);
        self.bell.ring();
    }

    /// True if this is a child of fork(2), and the server's thread stayed in the parent, or is the
    /// one that forked.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.process.is_some_and(|process| !process.is_current())
    }

    /// True if the server serves no more; finds out if it has died.
    pub(crate) fn is_gone(&self) -> bool {
        if self.is_elsewhere() {
            return true;
        }
        if self.life.has_died() {
            self.fate.has_died();
            self.wake_all();
        }
        self.fate.is_gone()
    }

    /// True if the server touches no line any more; finds out if it has died.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone() && (self.fate.is_over() || self.is_elsewhere())
    }

    /// Has somebody who only awaits an answer told of the server's death from now on; `false` if
    /// there is no thread to be had for it.
    pub(crate) fn watch(self: &Arc<Self>) -> bool {
        // In a child of fork(2) another thread may have had the lock.
        if self.is_elsewhere() {
            return false;
        }
        self.watch.is_wanted.store(true, Ordering::SeqCst);
        // SeqCst: partner is `begin`; the later one of the two sees the other.
        !self.watch.has_begun.load(Ordering::SeqCst) || self.arm()
    }

    fn arm(self: &Arc<Self>) -> bool {
        let mut armed = self.watch.is_armed.lock().unwrap_or_else(|poison| poison.into_inner());
        if *armed {
            return true;
        }
        let desk = Arc::clone(self);
        let watch = move || {
            if desk.life.outlast() {
                desk.fate.has_died();
                desk.wake_all();
            }
        };
        // It sleeps in the kernel until the server's thread ends.
        let builder = thread::Builder::new().name("kumiki-watch".to_owned()).stack_size(STACK);
        *armed = with_signals_blocked(|| builder.spawn(watch)).is_ok();
        *armed
    }

    /// Tells those who await something to ask again and again: nobody would tell of a death.
    #[cold]
    fn ask_again(&self) {
        // Before they are woken: partner is `is_unwatched`, which they ask once they can be.
        self.watch.has_failed.store(true, Ordering::Release);
        self.seats().iter().for_each(|seat| seat.wake_all());
    }

    /// True if nobody would tell of a death after all. Asked after a waker was registered.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.watch.has_failed.load(Ordering::Acquire)
    }

    /// The last that is done for them by a server that is gone: seats hold the desk, so it
    /// must not hold them for ever.
    fn wake_all(&self) {
        let seats = std::mem::take(&mut *self.seats());
        seats.iter().for_each(|seat| seat.wake_all());
    }
}
