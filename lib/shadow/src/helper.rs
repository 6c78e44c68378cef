//! The helper thread: waits beside the main thread, runs what it is handed.

use std::sync::Arc;

use kumiki_crew::roll::{self, Look};
use kumiki_crew::{self as crew, JoinHandle};
use kumiki_slot::{Event, job};
use kumiki_wait::{Policy, Waiter};

use crate::channel::Channel;
use crate::error::{Error, Result};
use kumiki_wait::Deadline;

/// Starts a helper on `cpu`; returns when it is there, or an error at the deadline:
/// then the helper ends when it gets its cpu, and has taken no job.
pub(crate) fn start(
    cpu: usize,
    policy: &Policy,
    channel: &Arc<Channel>,
    deadline: Deadline,
) -> Result<JoinHandle> {
    let waiter = Waiter::new(policy)?;
    let theirs = Arc::clone(channel);
    let body = move || serve(waiter, &theirs);
    crew::start(&format!("shadow-{cpu}"), cpu, deadline.at(), body).map_err(|error| match error {
        crew::Error::Sys(error) => error.into(),
        crew::Error::Wait(error) => error.into(),
        crew::Error::Late { .. } => Error::late(deadline, "helpers were on their cpus", 0, 1),
        error => Error::Thread(error),
    })
}

/// Shows the helper on `cpu` to observers, as the calling thread's.
pub(crate) fn enter(cpu: usize, channel: &Arc<Channel>) -> roll::RollEntry {
    let channel = Arc::clone(channel);
    roll::enter("shadow", Some(cpu), move || {
        let (calls, state) = channel.glance();
        Look { state: state.to_owned(), bytes: size_of::<Channel>() as u64, calls }
    })
}

fn serve(mut waiter: Waiter, channel: &Channel) {
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
