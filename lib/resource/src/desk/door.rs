//! The way to a desk: makes callers, closes it.

use std::sync::Arc;
use std::thread;

use kumiki_wait::{Bell, Waiter};

use super::Desk;
use super::caller::Caller;
use super::server::{Server, Serving};

/// Opens a desk: the way to it, and its server, for the thread that is to serve.
pub fn open() -> (Door, Server) {
    let desk = Arc::new(Desk::new());
    let server = Server::new(Arc::clone(&desk));
    (Door { desk }, server)
}

/// The way to a desk: makes callers, closes it.
#[derive(Clone, Debug)]
pub struct Door {
    desk: Arc<Desk>,
}

impl Door {
    /// A caller for one thread, which waits as `waiter` does.
    pub fn caller(&self, waiter: Waiter) -> Caller {
        Caller::new(self.desk.seat(Arc::new(Bell::new())), None, waiter)
    }

    /// A caller for the thread that serves, which sleeps at one bell for its answers and
    /// for its own callers' requests. Another thread may use it, and only looks now and
    /// then: that bell has one sleeper.
    pub fn caller_of(&self, serving: &Serving, waiter: Waiter) -> Caller {
        let seat = self.desk.seat(Arc::clone(serving.bell()));
        Caller::new(seat, Some(thread::current().id()), waiter)
    }

    /// Has the server end when it has served what has come. Whatever comes later is
    /// [`Gone`](super::Error::Gone).
    pub fn close(&self) {
        self.desk.fate.close();
        self.desk.bell.ring();
    }

    /// True if the server has ended, or will when it has served what has come, or died.
    pub fn is_gone(&self) -> bool {
        self.desk.is_gone()
    }

    /// True if the server's thread has died without an end.
    pub fn has_died(&self) -> bool {
        self.desk.is_gone() && self.desk.fate.is_dead()
    }
}
