//! A client's side of its lease at one place: serials, and which answers it has not seen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::transport::near::Near;
use crate::wire::{Granted, SUBJECT};

/// Client's view of one place.
pub(crate) struct Session {
    pub(crate) place: Arc<str>,
    pub(crate) subject: Arc<str>,
    state: Mutex<SessionState>,
    /// Held while a lease is asked for: one is enough.
    pub(crate) greeting: tokio::sync::Mutex<()>,
    /// The connection to a place at a socket.
    near: tokio::sync::Mutex<Option<Arc<Near>>>,
}

#[derive(Debug)]
struct SessionState {
    lease: Option<Held>,
    /// The place has left something without an answer since it was last heard of.
    doubted: bool,
    /// Serials never repeat, also from one lease to the next.
    next: u64,
    /// First serials of requests whose answers nobody has seen.
    open: BTreeSet<u64>,
    /// The last request.
    used: Instant,
}

/// A lease, as its client has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) granted: Granted,
    pub(crate) key: u64,
}

/// Serials of a request that is under way.
pub(crate) struct Ticket {
    session: Arc<Session>,
    first: u64,
    count: u64,
}

impl Session {
    pub(crate) fn new(place: &str) -> Session {
        let state = SessionState {
            lease: None,
            doubted: false,
            next: 1,
            open: BTreeSet::new(),
            used: Instant::now(),
        };
        Session {
            place: place.into(),
            subject: format!("{SUBJECT}{place}").into(),
            state: Mutex::new(state),
            greeting: tokio::sync::Mutex::new(()),
            near: tokio::sync::Mutex::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to the place's socket, made anew if it has ended; none if nobody is there.
    pub(crate) async fn near(&self) -> Result<Option<Arc<Near>>> {
        let mut near = self.near.lock().await;
        if let Some(near) = near.as_ref().filter(|near| !near.has_ended()) {
            return Ok(Some(Arc::clone(near)));
        }
        *near = Near::connect(&self.place).await?.map(Arc::new);
        Ok(near.clone())
    }

    pub(crate) fn lease(&self) -> Option<Held> {
        self.state().lease
    }

    pub(crate) fn set_lease(&self, lease: Held) {
        let mut state = self.state();
        state.lease = Some(lease);
        state.doubted = false;
        state.used = Instant::now();
    }

    /// Notes whether the place has answered: of one that has not, it is asked whether it is there before anything that has
    /// an effect is sent to it.
    pub(crate) fn heard(&self, answered: bool) {
        self.state().doubted = !answered;
    }

    pub(crate) fn is_doubted(&self) -> bool {
        self.state().doubted
    }

    /// Forgets a lease that has ended, unless there is another one by now.
    pub(crate) fn forget(&self, lease: Held) {
        let mut state = self.state();
        if state.lease == Some(lease) {
            state.lease = None;
        }
    }

    /// Takes serials for so many operations.
    pub(crate) fn take(self: &Arc<Self>, count: usize) -> Ticket {
        let mut state = self.state();
        let (first, count) = (state.next, count as u64);
        state.next += count;
        if count > 0 {
            state.open.insert(first);
        }
        Ticket { session: Arc::clone(self), first, count }
    }

    /// The first serial whose answer nobody has seen, for a request that leaves now.
    pub(crate) fn first_open(&self) -> u64 {
        let mut state = self.state();
        state.used = Instant::now();
        state.open.first().copied().unwrap_or(state.next)
    }

    /// The lease, if it was not used for so long.
    pub(crate) fn idle(&self, most: Duration) -> Option<Held> {
        let state = self.state();
        state.lease.filter(|_| state.used.elapsed() >= most)
    }
}

impl Ticket {
    /// Its serials.
    pub(crate) fn serials(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.count > 0 {
            self.session.state().open.remove(&self.first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_seen_is_named_until_its_ticket_goes() {
        let session = Arc::new(Session::new("a.core0"));
        let (one, two) = (session.take(1), session.take(3));
        assert_eq!((one.serials(), two.serials()), (1..2, 2..5));
        assert_eq!(session.first_open(), 1);
        drop(one);
        assert_eq!(session.first_open(), 2);
        let three = session.take(1);
        drop(two);
        assert_eq!(session.first_open(), 5);
        drop(three);
        assert_eq!(session.first_open(), 6);
    }
}
