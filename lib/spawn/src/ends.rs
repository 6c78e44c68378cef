//! The end of a child as a future, without a runtime: one thread of the process waits for
//! the pidfds of all children that are awaited, and wakes who awaits them.

mod wakers;

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use kumiki_sys::fork::PerProcess;
use kumiki_sys::signals::with_signals_blocked;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::child::Child;
use crate::request::os_error;
use wakers::Wakers;

/// A child of fork(2) has a thread of its own.
static ENDS: PerProcess<PidfdWakers> = PerProcess::new();

#[derive(Default)]
struct PidfdWakers {
    /// `None`: the thread does not run yet.
    epoll: Mutex<Option<&'static OwnedFd>>,
    /// Keyed by the number of the pidfd, which is open as long as its future lives.
    wakers: Wakers,
}

impl PidfdWakers {
    fn epoll(&'static self) -> io::Result<&'static OwnedFd> {
        let mut epoll = self.epoll.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(epoll) = *epoll {
            return Ok(epoll);
        }
        // For as long as the process lives, as the thread does.
        let new: &OwnedFd = Box::leak(Box::new(epoll::create(epoll::CreateFlags::CLOEXEC)?));
        let name = thread::Builder::new().name("kumiki-ends".to_owned());
        with_signals_blocked(|| name.spawn(move || self.run(new)))?;
        Ok(epoll.insert(new))
    }

    fn run(&self, epoll: &OwnedFd) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing else is told of an epoll that is open.
                Err(_) => return,
            }
            events.iter().for_each(|event| self.wakers.tell(event.data.u64()));
        }
    }

    /// Has `waker` woken when the process behind `pidfd` has ended, or at once.
    fn watch(&'static self, pidfd: impl AsFd, waker: &Waker) -> io::Result<()> {
        let (epoll, pidfd) = (self.epoll()?, pidfd.as_fd());
        let number = pidfd.as_raw_fd() as u64;
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let data = epoll::EventData::new_u64(number);
        let arm = || match epoll::modify(epoll, pidfd, data, once) {
            Err(Errno::NOENT) => epoll::add(epoll, pidfd, data, once),
            done => done,
        };
        Ok(self.wakers.watch(number, waker, arm)?)
    }

    fn forget(&'static self, pidfd: impl AsFd) {
        let pidfd = pidfd.as_fd();
        self.wakers.forget(pidfd.as_raw_fd() as u64);
        if let Ok(epoll) = self.epoll() {
            let _ = epoll::delete(epoll, pidfd);
        }
    }
}

/// Has `waker` woken when `fd`, of a pidfd or socket, is readable.
pub(crate) fn watch(fd: impl AsFd, waker: &Waker) -> io::Result<()> {
    ENDS.get().map_err(os_error)?.watch(fd, waker)
}

/// Undoes it.
pub(crate) fn forget(fd: impl AsFd) {
    if let Ok(ends) = ENDS.get() {
        ends.forget(fd);
    }
}

/// Future of [`Child::wait_async`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct WaitAsync<'a> {
    child: &'a mut Child,
    watched: bool,
}

impl Child {
    /// Its end, to be awaited under any runtime or none. Closes its standard input first, as
    /// [`Child::wait`] does. Dropping it changes nothing for the child.
    pub fn wait_async(&mut self) -> WaitAsync<'_> {
        drop(self.stdin.take());
        WaitAsync { child: self, watched: false }
    }
}

impl Future for WaitAsync<'_> {
    /// Result as [`Child::wait`] has it.
    type Output = io::Result<ExitStatus>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(status) = self.child.try_wait().transpose() {
            return Poll::Ready(status);
        }
        let watched = self.child.pidfd().and_then(|pidfd| watch(pidfd, context.waker()));
        self.watched = true;
        match watched {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for WaitAsync<'_> {
    fn drop(&mut self) {
        if let (true, Ok(pidfd)) = (self.watched, self.child.pidfd()) {
            forget(pidfd);
        }
    }
}
