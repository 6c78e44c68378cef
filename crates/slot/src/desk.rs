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

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Instant;

use kumiki_sys::fork::Process;
use kumiki_sys::signals::with_signals_blocked;
use kumiki_wait::{Bell, Waiter};

use crate::caller::{Caller, Seat};
use crate::fate::Fate;
use crate::job;
use crate::lane::{Event, Lane};
use crate::life::Life;

/// Requests that one caller may have under way.
pub const LINES: usize = 32;

/// Of a thread that does nothing.
const STACK: usize = 64 << 10;

/// Who looks on behalf of tasks that only await answers: a thread that waits for the end of
/// the server's. There is one once an answer has been awaited, and not before.
#[derive(Debug, Default)]
struct Watch {
    /// An answer was awaited.
    is_wanted: AtomicBool,
    /// There is a thread to be watched.
    has_begun: AtomicBool,
    /// There was no thread to be had for it.
    has_failed: AtomicBool,
    is_armed: Mutex<bool>,
}

/// What callers and their server share. Aligned, so that its fields, which the server looks
/// at all the time, are in other lines than the count of its owners.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Desk {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// How often `seats` has changed. The server looks at this one word before each
    /// round.
    changes: AtomicU64,
    /// The server sleeps here.
    pub(crate) bell: Arc<Bell>,
    pub(crate) fate: Fate,
    life: Life,
    watch: Watch,
    /// Where its server is, if it is to be known.
    process: Option<Process>,
}

/// Opens a desk: the way to it, and its server, for the thread that is to serve.
pub fn open() -> (Door, Server) {
    let desk = Arc::new(Desk {
        seats: Mutex::default(),
        changes: AtomicU64::new(0),
        bell: Arc::new(Bell::new()),
        fate: Fate::new(),
        life: Life::default(),
        watch: Watch::default(),
        process: Process::current().ok(),
    });
    let server = Server { post: Post { desk: Arc::clone(&desk), begun: false } };
    (Door { desk }, server)
}

impl Desk {
    fn seats(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The server is to look at the list of seats.
    pub(crate) fn changed(&self) {
        // Release: partner is the server's load, which comes before its look at the list.
        self.changes.fetch_add(1, Ordering::Release);
        self.bell.ring();
    }

    /// Whether this is a child of fork(2), and the server's thread stayed in the parent, or
    /// is the one that forked.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.process.is_some_and(|process| !process.is_current())
    }

    /// Whether the server serves no more; finds out if it has died.
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

    /// Whether the server touches no line any more; finds out if it has died.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone() && (self.fate.is_over() || self.is_elsewhere())
    }

    /// From now on somebody who only awaits an answer is told of the server's death;
    /// `false` if there is no thread to be had for it.
    pub(crate) fn watch(self: &Arc<Self>) -> bool {
        // In a child of fork(2) another thread may have had the lock.
        if self.is_elsewhere() {
            return false;
        }
        self.watch.is_wanted.store(true, Ordering::SeqCst);
        // SeqCst: partner is `Server::begin`; the later one of the two sees the other.
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

    /// Nobody would tell of a death: those who await something ask again and again.
    #[cold]
    fn ask_again(&self) {
        // Before they are woken: partner is `is_unwatched`, which they ask once they can be.
        self.watch.has_failed.store(true, Ordering::Release);
        self.seats().iter().for_each(|seat| seat.wake_all());
    }

    /// Whether nobody would tell of a death after all. Asked after a waker was registered.
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

/// The way to a desk: makes callers, closes it.
#[derive(Clone, Debug)]
pub struct Door {
    desk: Arc<Desk>,
}

impl Door {
    /// A caller for one thread, which waits as `waiter` does.
    pub fn caller(&self, waiter: Waiter) -> Caller {
        self.caller_at(Arc::new(Bell::new()), None, waiter)
    }

    /// The same for the thread that serves, which sleeps at one bell for its answers and
    /// for its own callers' requests. Another thread may use it, and only looks now and
    /// then: that bell has one sleeper.
    pub fn caller_of(&self, serving: &Serving, waiter: Waiter) -> Caller {
        let bell = Arc::clone(&serving.post.desk.bell);
        self.caller_at(bell, Some(thread::current().id()), waiter)
    }

    fn caller_at(&self, bell: Arc<Bell>, home: Option<ThreadId>, waiter: Waiter) -> Caller {
        let seat = Arc::new(Seat::new(Arc::clone(&self.desk), bell));
        if self.desk.is_elsewhere() {
            // Nobody would take it up, and another thread of the parent may have had the lock.
            return Caller::new(seat, home, waiter);
        }
        let mut seats = self.desk.seats();
        // Of one that is gone nobody would take it off the list.
        if !self.desk.fate.is_over() {
            seats.push(Arc::clone(&seat));
        }
        drop(seats);
        self.desk.changed();
        Caller::new(seat, home, waiter)
    }

    /// Has the server end when it has served what has come. Whatever comes later is
    /// [`Gone`](crate::Error::Gone).
    pub fn close(&self) {
        self.desk.fate.close();
        self.desk.bell.ring();
    }

    /// Whether the server has ended, or will when it has served what has come, or died.
    pub fn is_gone(&self) -> bool {
        self.desk.is_gone()
    }

    /// Whether the server's thread has died without an end.
    pub fn has_died(&self) -> bool {
        self.desk.is_gone() && self.desk.fate.is_dead()
    }
}

/// Whoever serves a desk. Dropped without an [end](Serving::end), it leaves what has come
/// unserved, and says so to those that wait.
#[derive(Debug)]
struct Post {
    desk: Arc<Desk>,
    /// Its thread lives, as far as callers know.
    begun: bool,
}

impl Drop for Post {
    fn drop(&mut self) {
        // Requesters take back what is left: nothing after `end`, but what came later.
        self.desk.fate.has_ended();
        self.desk.wake_all();
        if self.begun {
            self.desk.life.end();
        }
    }
}

/// The server's end, on its way to the thread that is to serve.
#[derive(Debug)]
pub struct Server {
    post: Post,
}

/// The server's end, in the thread that serves: callers notice if that dies. It stays
/// there, since another thread's death would be taken for its own:
///
/// ```compile_fail,E0277
/// fn sent<T: Send>(_: T) {}
/// sent(kumiki_slot::open().1.begin());
/// ```
#[derive(Debug)]
pub struct Serving {
    post: Post,
    changes: u64,
    served: Vec<Served>,
    /// Of this thread.
    here: PhantomData<*const ()>,
}

/// A lane and the number of its next request.
#[derive(Debug)]
struct Served {
    seat: Arc<Seat>,
    next: u64,
}

impl Server {
    /// Begins to serve in the calling thread, whose death callers will notice.
    pub fn begin(mut self) -> Serving {
        let desk = &self.post.desk;
        desk.life.begin();
        // SeqCst: partner is `Desk::watch`.
        desk.watch.has_begun.store(true, Ordering::SeqCst);
        if desk.watch.is_wanted.load(Ordering::SeqCst) && !desk.arm() {
            desk.ask_again();
        }
        self.post.begun = true;
        Serving { post: self.post, changes: 0, served: Vec::new(), here: PhantomData }
    }

    /// Serves in the calling thread until the desk is closed.
    pub fn serve(self, waiter: &mut Waiter) {
        self.begin().serve(waiter);
    }
}

impl Serving {
    /// Serves until the desk is closed.
    pub fn serve(mut self, waiter: &mut Waiter) {
        let desk = Arc::clone(&self.post.desk);
        while !desk.fate.is_closing() {
            if !self.round() {
                let ready = || (self.has_work() || desk.fate.is_closing()).then_some(());
                waiter.wait(&desk.bell, &desk.changes, ready);
            }
        }
        self.end();
    }

    /// Waits until something is to be served, or `until`; `false` if the desk was closed:
    /// then [`end`](Self::end) is due. For threads that do something else between
    /// [rounds](Self::round).
    pub fn wait(&mut self, waiter: &mut Waiter, until: Instant) -> bool {
        let ready = || (self.has_work() || self.post.desk.fate.is_closing()).then_some(());
        let _ = waiter.wait_until(&self.post.desk.bell, &self.post.desk.changes, until, ready);
        !self.post.desk.fate.is_closing()
    }

    /// Serves what has come, and nothing that comes later.
    pub fn end(mut self) {
        self.post.desk.fate.end();
        self.look_for_callers();
        let lasts: Vec<u64> = self.served.iter().map(|served| served.seat.lane.newest()).collect();
        let mut any = true;
        while any {
            any = false;
            for (served, last) in self.served.iter_mut().zip(&lasts) {
                any |= served.next <= *last && served.serve();
            }
        }
    }

    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.post.desk.bell
    }

    /// One request of each lane; whether there was any.
    pub fn round(&mut self) -> bool {
        self.look_for_callers();
        let mut any = false;
        for served in &mut self.served {
            any |= served.serve();
        }
        any
    }

    /// Whether a round would find something.
    #[inline(always)]
    pub fn has_work(&self) -> bool {
        self.post.desk.changes.load(Ordering::Acquire) != self.changes
            || self.served.iter().any(|served| served.seat.lane.pending(served.next).is_some())
    }

    #[inline(always)]
    fn look_for_callers(&mut self) {
        let changes = self.post.desk.changes.load(Ordering::Acquire);
        if changes != self.changes {
            self.find_callers(changes);
        }
    }

    #[cold]
    fn find_callers(&mut self, changes: u64) {
        self.changes = changes;
        let (served, mut seats) = (&mut self.served, self.post.desk.seats());
        for seat in seats.iter() {
            if !served.iter().any(|served| Arc::ptr_eq(seat, &served.seat)) {
                served.push(Served { seat: Arc::clone(seat), next: Lane::<LINES>::FIRST });
            }
        }
        // What has come of a caller that has left is served first; it is found here at the
        // next change.
        served.retain(|Served { seat, next }| !seat.is_left(*next));
        seats.retain(|seat| served.iter().any(|served| Arc::ptr_eq(seat, &served.seat)));
    }
}

impl Served {
    #[inline(always)]
    fn serve(&mut self) -> bool {
        let lane = &self.seat.lane;
        match lane.pending(self.next) {
            None | Some(Event::Close) => false,
            Some(Event::Taken(n)) => {
                self.next = n + 1;
                true
            }
            Some(Event::Request(n)) => {
                self.next = n + 1;
                if lane.begin(n) {
                    // SAFETY: `begin` made the request this thread's until `complete`, and
                    // the Acquire load in `pending` makes its contents visible.
                    let success = unsafe { job::execute(lane.request(n)) };
                    lane.complete(n, success);
                    self.seat.tell(n);
                }
                true
            }
        }
    }
}
