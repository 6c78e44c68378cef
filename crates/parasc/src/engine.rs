//! The engine: one area, its threads, and who may use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kumiki_sys::affinity;

use crate::config::Config;
use crate::core::Core;
use crate::error::Result;
use crate::requester::Requester;
use crate::threads::{after, lock};

/// How long a dropped engine waits for its threads to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Parallel system calls: a request area and the processing threads that serve
/// it. Threads start when they are wanted and end by themselves.
///
/// Dropping it ends the threads; one that is inside a call ends when the call
/// returns, and the memory stays until then. A [`Requester`] outlives its
/// engine, and makes all calls itself then.
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
}

impl Engine {
    /// An engine. Starts no thread.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for a value out of range;
    /// [`Error::Sys`](crate::Error::Sys) for a chosen cpu that is offline, or if
    /// memory is exhausted;
    /// [`Error::Wait`](crate::Error::Wait) if a way to wait was chosen that this
    /// machine lacks.
    pub fn new(config: &Config) -> Result<Self> {
        let core = Arc::new(Core::new(config)?);
        learn_cost_of_sleep(&core);
        // Tells now whether the policy works here.
        kumiki_wait::Waiter::new(&config.policy)?;
        Ok(Engine { core })
    }

    /// A lane of its own for a thread that makes requests.
    ///
    /// # Errors
    /// [`Error::NoLane`](crate::Error::NoLane) if all are leased.
    pub fn requester(&self) -> Result<Requester> {
        Requester::new(Arc::clone(&self.core))
    }

    /// Ends the engine's threads and waits for them for at most `patience`.
    /// Returns whether all have ended: one that is inside a call cannot.
    pub fn shut_down(&self, patience: Duration) -> bool {
        let core = &*self.core;
        core.area.header().terminate();
        if !core.process.is_current() {
            // A child of fork(2) has none of the threads.
            return true;
        }
        core.seats.iter().for_each(|seat| seat.bell.ring());
        core.pool.wake_all();
        core.alert_requesters();
        let deadline = after(patience);
        let mut alive = lock(&core.alive);
        while *alive > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            alive = match core.ended.wait_timeout(alive, left) {
                Ok((alive, _)) => alive,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }

    /// How many threads the engine has at the moment: none in a child of
    /// fork(2).
    pub fn threads(&self) -> usize {
        if !self.core.process.is_current() {
            // Nor is the lock the child's: it may have been held at the fork.
            return 0;
        }
        *lock(&self.core.alive)
    }
}

/// Has it measured what a sleep costs by a thread that may run on the engine's
/// cpus: it is known once a process, and measured by a thread that is bound to
/// one cpu, as a requesting thread often is, it would be that of a wake there.
fn learn_cost_of_sleep(core: &Core) {
    let cpus = core.seats.iter().map(|seat| seat.cpu).collect();
    std::thread::scope(|threads| {
        let measure = || {
            // Refused: then as far as this thread may go.
            let _ = affinity::set(&cpus);
            kumiki_wait::sleep_cost_ticks();
        };
        // No thread: whoever waits first measures it.
        let _ = std::thread::Builder::new().spawn_scoped(threads, measure);
    });
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut_down(PATIENCE);
    }
}
