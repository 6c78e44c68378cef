//! Frames of one stream that have come and were not taken, with a bell for who takes them.
//!
//! Who puts a frame there rings after that, outside of the lock. Who takes waits for the bell, then
//! listens, then looks until nothing is there: the order that [`PollBell`] asks for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kumiki_wait::PollBell;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::frame::Kind;
use crate::link::Other;
use crate::stream::FRAME_COST;

/// Cost of frames that are no data, beside the window: some thousand signals that nobody takes.
const SPARE: usize = 64 << 10;

/// A frame as it is kept.
pub(crate) type Kept = (Kind, Vec<u8>);

#[derive(Debug)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    bell: PollBell,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Kept>,
    cost: usize,
    /// Nothing more comes.
    is_over: bool,
}

fn cost((kind, body): &Kept) -> usize {
    // There is one opening, which has a limit of its own.
    if *kind == Kind::Open { 0 } else { body.len() + FRAME_COST }
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Mailbox { state: Mutex::default(), bell: PollBell::new()? })
    }

    /// Puts a frame there, unless the sender has sent more than its window allows.
    pub(crate) fn put(&self, frame: Kept, window: usize) -> Result<()> {
        let mut state = self.state();
        let after = state.cost + cost(&frame);
        if after > window + SPARE {
            let text =
                format!("frames of {after} bytes that nobody has taken; {window} are agreed");
            return Err(Error::Protocol(text));
        }
        if !state.is_over {
            state.is_over = frame.0 == Kind::Close;
            state.cost = after;
            state.frames.push_back(frame);
        }
        drop(state);
        self.bell.ring();
        Ok(())
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.bell.ring();
    }

    /// Takes the next frame; an error if none is there and none comes.
    pub(crate) fn take(&self) -> Result<Option<Kept>> {
        let mut state = self.state();
        match state.frames.pop_front() {
            Some(frame) => {
                state.cost -= cost(&frame);
                Ok(Some(frame))
            }
            None if state.is_over => Err(Error::Gone),
            None => Ok(None),
        }
    }

    /// Sleeps until a frame comes, one of `others` is ready, or time is over.
    pub(crate) fn wait(&self, others: &[Other<'_>], limit: Option<Duration>) -> Result<()> {
        let bell = PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN);
        let others = others.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags));
        let mut fds: Vec<_> = [bell].into_iter().chain(others).collect();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::os("waiting for frames", error)),
        }
        self.listen();
        Ok(())
    }

    /// Bell to be waited for together with others; [`listen`](Self::listen) is to follow.
    pub(crate) fn bell(&self) -> &PollBell {
        &self.bell
    }

    pub(crate) fn listen(&self) {
        self.bell.listen();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
