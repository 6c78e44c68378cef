//! How many bytes a sender may still send; see [`crate::frame`].

use std::sync::{Condvar, Mutex, MutexGuard};

use crate::frame::{CHUNK, WINDOW};

/// The sender's side of one direction of a stream.
pub(crate) struct Credit {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    bytes: usize,
    over: bool,
}

impl Credit {
    pub(crate) fn new() -> Self {
        let state = State { bytes: WINDOW, over: false };
        Credit { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until some bytes may be sent, and says how many at once; none if
    /// the stream is over.
    pub(crate) fn wait(&self) -> Option<usize> {
        let state = self.lock();
        let state = self.changed.wait_while(state, |state| state.bytes == 0 && !state.over);
        let state = state.expect("no holder panics");
        (!state.over).then(|| state.bytes.min(CHUNK))
    }

    /// Bytes sent.
    pub(crate) fn spend(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    /// Bytes that the other side has passed on.
    pub(crate) fn earn(&self, bytes: u32) {
        self.lock().bytes += bytes as usize;
        self.changed.notify_all();
    }

    /// Ends the wait: nobody waits for more.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}
