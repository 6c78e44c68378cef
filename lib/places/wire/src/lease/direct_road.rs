//! A session's own connection to its place: whether there is one, and whether a task looks for one.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::lease::Held;
use crate::transport::near::Near;

/// A session's own connection, if it has one.
#[derive(Default)]
pub struct DirectRoad {
    state: Mutex<RoadState>,
    /// Notified of another lease, and so a place that answers: whoever waits before another try waits no more.
    again: Arc<Notify>,
}

#[derive(Default)]
struct RoadState {
    /// A task looks for one.
    is_sought: bool,
    /// The lease under which it was last looked for.
    tried: Option<Held>,
    /// The lease under which the place has said that there is none to be had.
    none_for: Option<Held>,
    /// The connection, and the place's life.
    up: Option<(u64, Arc<Near>)>,
    /// Reason for which there was none when one was last looked for.
    why: Option<String>,
}

impl fmt::Debug for DirectRoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectRoad").finish_non_exhaustive()
    }
}

impl DirectRoad {
    fn state(&self) -> MutexGuard<'_, RoadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if there is one to this life of the place; with 0 to whichever there is.
    pub fn at(&self, life: u64) -> Option<Arc<Near>> {
        let state = self.state();
        let (its, near) = state.up.as_ref()?;
        (life == 0 || *its == life).then_some(near).filter(|near| !near.has_ended()).cloned()
    }

    /// True once for who is to look for one.
    pub fn begins(&self, lease: Held) -> bool {
        let mut state = self.state();
        if state.is_sought {
            if state.tried != Some(lease) {
                self.again.notify_one();
            }
            return false;
        }
        state.is_sought = state.none_for != Some(lease);
        state.is_sought
    }

    /// Notes the lease under which one is looked for; gives what another lease notifies.
    pub fn tries(&self, lease: Held) -> Arc<Notify> {
        self.state().tried = Some(lease);
        Arc::clone(&self.again)
    }

    /// Notes a connection to this life of the place.
    pub fn is_there(&self, life: u64, near: Arc<Near>) {
        let mut state = self.state();
        (state.up, state.why) = (Some((life, near)), None);
    }

    /// Notes why there is none now; true if that is said for the first time.
    pub fn fails(&self, why: &str) -> bool {
        self.state().why.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Nobody looks for one any more, under this lease.
    pub fn stop_looking(&self, none_for: Option<Held>) {
        *self.state() = RoadState { none_for, ..RoadState::default() };
    }

    /// Reason for which there is none, where one was looked for.
    pub fn why_not(&self) -> Option<String> {
        let state = self.state();
        let is_up = state.up.as_ref().is_some_and(|(_, near)| !near.has_ended());
        state.why.clone().filter(|_| !is_up)
    }
}
