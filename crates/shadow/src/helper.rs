//! The helper thread: waits beside the main thread, runs what it is handed.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use kumiki_sys::affinity;
use kumiki_wait::{Policy, Waiter};

use crate::channel::{Channel, Event};
use crate::error::{Error, Result};
use crate::job;

/// Starts a helper on `cpu`; returns when it is there.
pub(crate) fn start(cpu: usize, policy: &Policy, channel: Arc<Channel>) -> Result<JoinHandle<()>> {
    let waiter = Waiter::new(policy)?;
    let (ready, bound) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new()
        .name(format!("shadow-{cpu}"))
        .spawn(move || serve(cpu, waiter, &channel, &ready))
        .map_err(|source| Error::Thread { cpu, source })?;
    // A helper that cannot be bound says so and ends.
    bound.recv().expect("the helper answers before it does anything else")?;
    Ok(thread)
}

fn serve(cpu: usize, mut waiter: Waiter, channel: &Channel, ready: &SyncSender<Result<()>>) {
    // The starter waits for the answer; it cannot have gone.
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
    let mut seen = 0;
    loop {
        match waiter.wait(&channel.helper, channel.status(), || channel.pending(seen)) {
            Event::Request(n) => {
                seen = n;
                if channel.begin(n) {
                    // SAFETY: `begin` made the request this thread's until
                    // `complete`, and the Acquire load in `pending` makes its
                    // contents visible.
                    let success = unsafe { job::execute(channel.request()) };
                    channel.complete(n, success);
                }
            }
            Event::Taken(n) => seen = n,
            Event::Close => return,
        }
    }
}
