//! The helper thread: waits beside the main thread, runs what it is handed.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Instant;

use kumiki_slot::{Event, job};
use kumiki_sys::affinity;
use kumiki_wait::{Policy, Waiter};

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::timed::Deadline;

/// Starts a helper on `cpu`; returns when it is there, or an error at the deadline:
/// then the helper ends when it gets its cpu, and has taken no job.
pub(crate) fn start(
    cpu: usize,
    policy: &Policy,
    channel: &Arc<Channel>,
    deadline: Deadline,
) -> Result<JoinHandle<()>> {
    let waiter = Waiter::new(policy)?;
    let (ready, bound) = std::sync::mpsc::sync_channel(1);
    let theirs = Arc::clone(channel);
    let thread = std::thread::Builder::new()
        .name(format!("shadow-{cpu}"))
        .spawn(move || serve(cpu, waiter, &theirs, &ready))
        .map_err(|source| Error::Thread { cpu, source })?;
    let answer = match deadline.at() {
        Some(at) => bound.recv_timeout(at.saturating_duration_since(Instant::now())),
        None => bound.recv().map_err(RecvTimeoutError::from),
    };
    match answer {
        // A helper that cannot be bound says so and ends.
        Ok(bound) => bound.map(|()| thread),
        Err(RecvTimeoutError::Timeout) => {
            channel.close(Channel::FIRST);
            Err(deadline.error("helpers were on their cpus", 0, 1))
        }
        Err(RecvTimeoutError::Disconnected) => {
            unreachable!("the helper answers before it does anything else")
        }
    }
}

fn serve(cpu: usize, mut waiter: Waiter, channel: &Channel, ready: &SyncSender<Result<()>>) {
    // A starter that has stopped waiting for the answer has closed the channel.
    let _bound = match affinity::bind(cpu) {
        Ok(bound) => {
            let _ = ready.send(Ok(()));
            bound
        }
        Err(error) => {
            let _ = ready.send(Err(error.into()));
            return;
        }
    };
    let mut next = Channel::FIRST;
    loop {
        match waiter.wait(&channel.helper, channel.word(), || channel.pending(next)) {
            Event::Request(n) => {
                next = n + 1;
                if channel.begin(n) {
                    // SAFETY: `begin` made the request this thread's until
                    // `complete`, and the Acquire load in `pending` makes its
                    // contents visible.
                    let success = unsafe { job::execute(channel.request()) };
                    channel.complete(n, success);
                }
            }
            Event::Taken(n) => next = n + 1,
            Event::Close => return,
        }
    }
}
