//! Whoever serves a desk.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kumiki_wait::{Bell, Deadline, Waiter};

use super::Desk;
use super::LINES;
use super::first_look::FirstLook;
use super::seat::Seat;
use kumiki_slot::job;
use kumiki_slot::{Event, Lane};

/// Rounds in which nothing has come before a server waits in earnest, some microseconds. A
/// wait notes when it begins and what it has learnt when it ends: that would be in the way of
/// a request that comes sooner.
const LOOKS: u32 = 1024;

/// Guard of a thread that serves a desk. Dropped without an [end](Serving::end), it leaves what has
/// come unserved, and says so to those that wait.
#[derive(Debug)]
struct DeskGuard {
    desk: Arc<Desk>,
    /// Its thread lives, as far as callers know.
    begun: bool,
}

impl Drop for DeskGuard {
    fn drop(&mut self) {
        self.desk.end(self.begun);
    }
}

/// The server's end, on its way to the thread that is to serve.
#[derive(Debug)]
pub struct Server {
    post: DeskGuard,
}

/// The server's end, in the thread that serves: callers notice if that dies. It stays
/// there, since another thread's death would be taken for its own:
///
/// ```compile_fail,E0277
/// fn sent<T: Send>(_: T) {}
/// sent(kumiki_resource::desk::open().1.begin());
/// ```
#[derive(Debug)]
pub struct Serving {
    post: DeskGuard,
    changes: u64,
    served: Vec<Served>,
    /// First look for the next request of callers that have several under way.
    first_look: FirstLook,
    /// Keeps the value on its thread.
    here: PhantomData<*const ()>,
}

/// A lane and the number of its next request.
#[derive(Debug)]
struct Served {
    seat: Arc<Seat>,
    next: u64,
}

impl Server {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        Server { post: DeskGuard { desk, begun: false } }
    }

    /// Begins to serve in the calling thread, whose death callers will notice.
    pub fn begin(mut self) -> Serving {
        self.post.desk.begin();
        self.post.begun = true;
        Serving {
            post: self.post,
            changes: 0,
            served: Vec::new(),
            first_look: FirstLook::default(),
            here: PhantomData,
        }
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
        let mut idle = 0;
        while !desk.fate.is_closing() {
            idle += 1;
            if self.round() {
                // With one request under way the next one comes a round trip later, and in
                // the line that this one was in: looks take nothing from its caller.
                if self.found_steps() {
                    self.first_look.found(idle);
                    self.first_look.wait(|| false);
                }
                idle = 0;
            }
            if idle == LOOKS {
                let ready = || (self.has_work() || desk.fate.is_closing()).then_some(());
                waiter.wait(&desk.bell, &desk.changes, ready);
                idle = 0;
            }
        }
        self.end();
    }

    /// Waits until something is to be served, for `timeout` at most; `false` if the desk was
    /// closed: then [`end`](Self::end) is due. For threads that do something else between
    /// [rounds](Self::round).
    pub fn wait_timeout(&mut self, waiter: &mut Waiter, timeout: Duration) -> bool {
        let desk = &self.post.desk;
        let ready = || (self.has_work() || desk.fate.is_closing()).then_some(());
        match Deadline::after(timeout).at() {
            Some(deadline) => {
                let _ = waiter.wait_deadline(&desk.bell, &desk.changes, deadline, ready);
            }
            None => waiter.wait(&desk.bell, &desk.changes, ready),
        }
        !desk.fate.is_closing()
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

    /// True if the last requests are of callers that have several under way.
    #[inline(always)]
    fn found_steps(&self) -> bool {
        self.served.iter().all(|served| Lane::<LINES>::is_step(served.next - 1))
    }

    /// True if a round would find something.
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
