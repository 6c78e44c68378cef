//! How a worker that sleeps at its sockets is woken by another one that asks it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use anyhow::Result;
use rustix::event::{EventfdFlags, eventfd};

/// A word that says whether its worker is about to sleep, and a descriptor that wakes it.
#[derive(Debug)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { asleep: AtomicBool::new(false), fd })
    }

    /// After a request was handed over. Either this sees that the other one is about to sleep,
    /// or that one sees the request: both have a full fence between their store and their look.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes it, whether it sleeps or not.
    pub(crate) fn wake(&self) {
        // It is full only if it says already that there is something.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Before its worker looks for the last time whether it is asked.
    pub(crate) fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        // As in `ring`.
        fence(Ordering::SeqCst);
    }

    /// When it is awake.
    pub(crate) fn get_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Takes the sign away, before its worker looks what there is.
    pub(crate) fn heard(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8][..]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
