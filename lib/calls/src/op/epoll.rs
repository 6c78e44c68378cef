//! Waiting for many files, of which the kernel keeps a list: epoll(7).

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{CreateFlags, EventFlags};
use rustix::io::Errno;

use super::Operation;
use super::output::{descriptor, typed};
use crate::request::Request;

operation! {
    /// epoll_create1(2): a list of files to wait for, empty at first.
    pub struct EpollCreate1 { flags: CreateFlags }
    |op| Request::new(libc::SYS_epoll_create1, [op.flags.bits().into()]) => OwnedFd
}

/// epoll_ctl(2): changes what a list waits for.
///
/// A list does not keep its files open: a file leaves the list when its last duplicate is
/// closed, and is reported until then.
#[derive(Debug)]
pub struct EpollCtl<F, G> {
    epoll: F,
    command: i32,
    file: G,
    event: libc::epoll_event,
}

impl<F: AsFd, G: AsFd> EpollCtl<F, G> {
    const fn of(epoll: F, command: i32, file: G, events: EventFlags, data: u64) -> Self {
        let event = libc::epoll_event { events: events.bits(), u64: data };
        EpollCtl { epoll, command, file, event }
    }

    /// The call that adds a file, to be reported with `data` when any of these events
    /// happens; `EEXIST` if the list has it.
    #[inline]
    pub const fn add(epoll: F, file: G, events: EventFlags, data: u64) -> Self {
        Self::of(epoll, libc::EPOLL_CTL_ADD, file, events, data)
    }

    /// The call that gives a file of the list other events and other data;
    /// `ENOENT` if the list has it not.
    #[inline]
    pub const fn modify(epoll: F, file: G, events: EventFlags, data: u64) -> Self {
        Self::of(epoll, libc::EPOLL_CTL_MOD, file, events, data)
    }

    /// The call that takes a file from the list; `ENOENT` if the list has it not.
    #[inline]
    pub const fn delete(epoll: F, file: G) -> Self {
        Self::of(epoll, libc::EPOLL_CTL_DEL, file, EventFlags::empty(), 0)
    }
}

// SAFETY: the kernel reads one struct epoll_event, the field of that type.
unsafe impl<F: AsFd, G: AsFd> Operation for EpollCtl<F, G> {
    type Output = Result<(), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        let (epoll, file) = (descriptor(&self.epoll), descriptor(&self.file));
        let event = &raw const self.event as u64;
        Request::new(libc::SYS_epoll_ctl, [epoll, self.command as u64, file, event])
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: nothing is made of the value.
        unsafe { typed(ret_val) }
    }
}

/// epoll_wait(2): waits for events on the files of a list; returns how many files it
/// reports, 0 on timeout.
#[derive(Debug)]
pub struct EpollWait<F> {
    epoll: F,
    events: Vec<libc::epoll_event>,
    timeout_ms: i32,
    told: usize,
}

impl<F: AsFd> EpollWait<F> {
    /// The call that reports at most `room` files, and waits for `timeout_ms`
    /// milliseconds at most; without limit if negative. A `room` of 0 is an error,
    /// `EINVAL`.
    pub fn new(epoll: F, room: usize, timeout_ms: i32) -> Self {
        let none = libc::epoll_event { events: 0, u64: 0 };
        EpollWait { epoll, events: vec![none; room], timeout_ms, told: 0 }
    }

    /// Reports of the last call: the data of each file, and its events.
    pub fn events(&self) -> impl ExactSizeIterator<Item = (u64, EventFlags)> {
        let told =
            |event: &libc::epoll_event| (event.u64, EventFlags::from_bits_retain(event.events));
        self.events[..self.told].iter().map(told)
    }
}

// SAFETY: the kernel writes to the events, which the operation owns, no more than
// there is room for.
unsafe impl<F: AsFd> Operation for EpollWait<F> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        self.told = 0;
        let (events, room) = (self.events.as_mut_ptr() as u64, self.events.len() as u64);
        let timeout = self.timeout_ms as u64;
        let args = [descriptor(&self.epoll), events, room, timeout];
        #[cfg(target_arch = "x86_64")]
        let request = Request::new(libc::SYS_epoll_wait, args);
        // Without a mask the same, where there is no epoll_wait.
        #[cfg(not(target_arch = "x86_64"))]
        let request = {
            let [epoll, events, room, timeout] = args;
            Request::new(libc::SYS_epoll_pwait, [epoll, events, room, timeout, 0])
        };
        request
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: any number is a count.
        let told: usize = unsafe { typed(ret_val) }?;
        self.told = told.min(self.events.len());
        Ok(told)
    }
}
