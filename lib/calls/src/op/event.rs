//! Waiting for events on files.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::inotify::{CreateFlags, WatchFlags};
use rustix::io::Errno;

use super::Operation;
use super::output::{descriptor, name, typed};
use crate::request::Request;

/// poll(2): waits for events on some of the files; returns on how many, 0 on timeout.
#[derive(Debug)]
pub struct Poll<F> {
    files: Vec<F>,
    list: Vec<libc::pollfd>,
    timeout_ms: i32,
    /// Processors that came later have ppoll(2) alone, which takes a time by its address, and writes there
    /// what is left of it.
    #[cfg(not(target_arch = "x86_64"))]
    limit: Box<libc::timespec>,
}

impl<F: AsFd> Poll<F> {
    /// The call that waits for any of these events, for `timeout_ms` milliseconds at
    /// most; without limit if negative.
    pub fn new(files: impl IntoIterator<Item = (F, PollFlags)>, timeout_ms: i32) -> Self {
        let (files, list): (Vec<F>, Vec<libc::pollfd>) = files
            .into_iter()
            .map(|(file, events)| {
                (file, libc::pollfd { fd: -1, events: events.bits() as i16, revents: 0 })
            })
            .unzip();
        Poll {
            files,
            list,
            timeout_ms,
            #[cfg(not(target_arch = "x86_64"))]
            limit: Box::new(libc::timespec { tv_sec: 0, tv_nsec: 0 }),
        }
    }

    /// Each file with its events when the last call returned.
    pub fn events(&self) -> impl ExactSizeIterator<Item = (&F, PollFlags)> {
        let events = |poll: &libc::pollfd| PollFlags::from_bits_retain(poll.revents as u16);
        self.files.iter().zip(self.list.iter().map(events))
    }
}

// SAFETY: the kernel reads and writes the list, which the operation owns, as it
// does the files.
unsafe impl<F: AsFd> Operation for Poll<F> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        for (poll, file) in self.list.iter_mut().zip(&self.files) {
            poll.fd = file.as_fd().as_raw_fd();
        }
        let (list, length) = (self.list.as_mut_ptr() as u64, self.list.len() as u64);
        self.call(list, length)
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: any number is a count.
        unsafe { typed(ret_val) }
    }
}

impl<F> Poll<F> {
    #[cfg(target_arch = "x86_64")]
    fn call(&mut self, list: u64, length: u64) -> Request {
        Request::new(libc::SYS_poll, [list, length, self.timeout_ms as u64])
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn call(&mut self, list: u64, length: u64) -> Request {
        let limit = match u64::try_from(self.timeout_ms) {
            Err(_) => 0,
            Ok(ms) => {
                let (seconds, rest) = (ms / 1000, ms % 1000);
                *self.limit =
                    libc::timespec { tv_sec: seconds as i64, tv_nsec: rest as i64 * 1_000_000 };
                &raw mut *self.limit as u64
            }
        };
        Request::new(libc::SYS_ppoll, [list, length, limit, 0])
    }
}

operation! {
    /// inotify_init1(2): a queue of changes to files, to be read by
    /// [`Read`](super::Read).
    pub struct InotifyInit1 { flags: CreateFlags }
    |op| Request::new(libc::SYS_inotify_init1, [op.flags.bits().into()]) => OwnedFd
}

operation! {
    /// inotify_add_watch(2): watches `path`; gives the number of the watch.
    pub struct InotifyAddWatch<F: AsFd, P: AsRef<CStr>> { queue: F, path: P, events: WatchFlags }
    |op| Request::new(
        libc::SYS_inotify_add_watch,
        [descriptor(&op.queue), name(&op.path), op.events.bits().into()],
    ) => i32
}

operation! {
    /// inotify_rm_watch(2): ends a watch.
    pub struct InotifyRmWatch<F: AsFd> { queue: F, watch: i32 }
    |op| Request::new(
        libc::SYS_inotify_rm_watch,
        [descriptor(&op.queue), op.watch as u64],
    ) => ()
}
