//! A client's side of its lease at one place: serials, and which answers it has not seen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::lease::{DirectRoad, Held};
use crate::transport::near::Near;
use crate::wire::{MOST_OPEN, SUBJECT, subject_of};

/// Serials behind which a request is one that takes long, and is named by itself.
const RECENT: u64 = 1024;

/// Client's view of one place.
pub struct Session {
    pub place: Arc<str>,
    state: Mutex<SessionState>,
    /// Held while a lease is asked for: one is enough.
    pub greeting: tokio::sync::Mutex<()>,
    /// The connection to a place at a socket.
    near: tokio::sync::Mutex<Option<Arc<Near>>>,
    /// A connection of its own to a place behind a NATS server.
    pub direct: DirectRoad,
}

#[derive(Debug)]
struct SessionState {
    lease: Option<Held>,
    /// The place has left something without an answer since it was last heard of.
    doubted: bool,
    /// Serials never repeat, also from one lease to the next.
    next: u64,
    /// Requests whose answers nobody has seen: first serial and count.
    open: BTreeMap<u64, u64>,
    /// The last request.
    used: Instant,
}

/// Serials of a request that is under way.
pub struct Ticket {
    session: Arc<Session>,
    first: u64,
    count: u64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Session {
    pub fn new(place: &str) -> Session {
        let state = SessionState {
            lease: None,
            doubted: false,
            next: 1,
            open: BTreeMap::new(),
            used: Instant::now(),
        };
        Session {
            place: place.into(),
            state: Mutex::new(state),
            greeting: tokio::sync::Mutex::new(()),
            near: tokio::sync::Mutex::new(None),
            direct: DirectRoad::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to the place's socket, made anew if it has ended; none if nobody is there.
    pub async fn near(&self) -> Result<Option<Arc<Near>>> {
        let mut near = self.near.lock().await;
        if let Some(near) = near.as_ref().filter(|near| !near.has_ended()) {
            return Ok(Some(Arc::clone(near)));
        }
        *near = Near::connect(&self.place).await?.map(Arc::new);
        Ok(near.clone())
    }

    /// The subject of this life of the place; of 0 that of whichever there is.
    pub fn subject(&self, life: u64) -> String {
        match life {
            0 => format!("{SUBJECT}{}", self.place),
            life => subject_of(&self.place, life),
        }
    }

    pub fn lease(&self) -> Option<Held> {
        self.state().lease
    }

    /// The lease, if it is of this life of the place, or of any with 0.
    pub fn lease_at(&self, life: u64) -> Option<Held> {
        self.lease().filter(|lease| life == 0 || lease.granted.life == life)
    }

    pub fn set_lease(&self, lease: Held) {
        let mut state = self.state();
        state.lease = Some(lease);
        state.doubted = false;
        state.used = Instant::now();
    }

    /// Notes that the place has answered.
    pub fn heard(&self) {
        self.state().doubted = false;
    }

    /// Notes that the place has not answered: it is asked whether it is there before anything that has an effect is sent
    /// to it.
    pub fn doubts(&self) {
        self.state().doubted = true;
    }

    pub fn is_doubted(&self) -> bool {
        self.state().doubted
    }

    /// Forgets a lease that has ended, unless there is another one by now.
    pub fn forget(&self, lease: Held) {
        let mut state = self.state();
        if state.lease == Some(lease) {
            state.lease = None;
        }
    }

    /// Takes serials for so many operations.
    pub fn take(self: &Arc<Self>, count: usize) -> Ticket {
        let mut state = self.state();
        let (first, count) = (state.next, count as u64);
        state.next += count;
        if count > 0 {
            state.open.insert(first, count);
        }
        Ticket { session: Arc::clone(self), first, count }
    }

    /// The serial before which all answers have been seen, for a request that leaves now, but those of the ranges
    /// beside it, which are of requests that take long.
    pub fn unseen(&self) -> (u64, Vec<(u64, u64)>) {
        let mut state = self.state();
        state.used = Instant::now();
        let old = state.next.saturating_sub(RECENT);
        let late = state.open.range(..old).take(MOST_OPEN);
        let late: Vec<(u64, u64)> = late.map(|(first, count)| (*first, *count)).collect();
        let first = match late.last() {
            Some((last, _)) => state.open.range(last + 1..).next(),
            None => state.open.first_key_value(),
        };
        (first.map_or(state.next, |(first, _)| *first), late)
    }

    /// The lease, if it was not used for so long.
    pub fn idle(&self, most: Duration) -> Option<Held> {
        let state = self.state();
        state.lease.filter(|_| state.used.elapsed() >= most)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("first", &self.first)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Ticket {
    /// Its serials.
    pub fn serials(&self) -> std::ops::Range<u64> {
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
        assert_eq!(session.unseen(), (1, vec![]));
        drop(one);
        assert_eq!(session.unseen(), (2, vec![]));
        let three = session.take(1);
        drop(two);
        assert_eq!(session.unseen(), (5, vec![]));
        drop(three);
        assert_eq!(session.unseen(), (6, vec![]));
    }

    #[test]
    fn what_takes_long_is_named_by_itself() {
        let session = Arc::new(Session::new("a.core0"));
        let (long, longer) = (session.take(1), session.take(3));
        for _ in 0..2 * RECENT {
            drop(session.take(1));
        }
        let next = 5 + 2 * RECENT;
        assert_eq!(session.unseen(), (next, vec![(1, 1), (2, 3)]));
        let recent = session.take(1);
        drop(long);
        assert_eq!(session.unseen(), (next, vec![(2, 3)]));
        drop((longer, recent));
        assert_eq!(session.unseen(), (next + 1, vec![]));
        // More of them than a request names: the first of the others is where it ends.
        let many: Vec<_> = (0..MOST_OPEN as u64 + 9).map(|_| session.take(1)).collect();
        drop(session.take(RECENT as usize));
        let (first, late) = session.unseen();
        assert_eq!((first, late.len()), (many[MOST_OPEN].first, MOST_OPEN));
    }
}
