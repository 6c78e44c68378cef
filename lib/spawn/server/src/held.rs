//! The caller's standard descriptors, kept between requests, so that nobody need send them.
//!
//! The kernel compares each with what the caller has now (kcmp(2)). They are closed as soon as
//! requests stop coming: somebody may wait until the caller's end of a pipe has no holder.

use core::sync::atomic::Ordering::Relaxed;

use kumiki_spawn_wire::sys::{self, EBADF};
use kumiki_spawn_wire::{FOLDER, Header, OWN};

use crate::asker::Asker;
use crate::received::Received;

pub(crate) struct Held {
    fds: [i32; 3],
    /// The kernel does not let this program compare or look: it is not tried again.
    is_refused: bool,
}

impl Held {
    pub(crate) const fn new() -> Held {
        Held { fds: [-1; 3], is_refused: false }
    }

    pub(crate) fn has(&self, fd: i32) -> bool {
        self.fds.contains(&fd)
    }

    /// Takes what the request wants to be taken; `false` if it has to be sent.
    pub(crate) fn take(&mut self, received: &mut Received, header: &Header, asker: &Asker) -> bool {
        for (number, fd) in self.fds.iter().enumerate() {
            if header.own >> number & 1 == 0 {
                continue;
            }
            if *fd < 0 {
                return false;
            }
            let compared = is_same(header, number, *fd);
            // The caller may have closed it, which is no refusal.
            self.is_refused |= compared < 0 && compared != EBADF;
            if compared != 0 {
                header.holds.store(0, Relaxed);
                return false;
            }
            received.set(OWN + number, *fd);
        }
        if header.own >> (FOLDER - OWN) & 1 != 0 {
            let folder = asker.folder();
            if folder < 0 {
                self.is_refused = true;
                header.holds.store(0, Relaxed);
                return false;
            }
            received.set(FOLDER, folder as i32);
        }
        true
    }

    /// Keeps those that a message has brought.
    pub(crate) fn keep(&mut self, received: &Received, header: &Header) {
        if self.is_refused {
            return;
        }
        for (number, place) in header.brings.iter().enumerate() {
            let Some(fd) = place.checked_sub(1).and_then(|place| received.at(place as usize))
            else {
                continue;
            };
            if self.fds[number] >= 0 {
                sys::close(self.fds[number]);
            }
            self.fds[number] = fd;
            header.holds.store(1, Relaxed);
        }
    }

    pub(crate) fn close(&mut self, header: &Header) {
        header.holds.store(0, Relaxed);
        for fd in self.fds.iter_mut().filter(|fd| **fd >= 0) {
            sys::close(*fd);
            *fd = -1;
        }
    }
}

/// 0: descriptor `number` of who asks is `fd` of this program; below 0: the kernel does not
/// tell.
fn is_same(header: &Header, number: usize, fd: i32) -> isize {
    sys::same_file((header.thread, number as i32), (sys::getpid() as i32, fd))
}
