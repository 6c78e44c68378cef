//! A ring: a batch is one io_uring_enter(2) that submits it and
//! waits for all of it.
//!
//! # What the caller can rely on
//! Each request is made once, whatever happens to the ring: one that the kernel
//! has taken from the submission queue has its completion awaited; one that it
//! has not is made plain. Two kinds of requests are made plain after the ring's:
//! those that cannot be said to io_uring without a change of meaning
//! (`table.rs`), and those that the ring answers with an error that says
//! that nothing was done ([`is_undone`]): they get the plain call's own answer.
//!
//! # Set-up
//! One thread submits (`SINGLE_ISSUER`), and completions don't interrupt it
//! (`COOP_TASKRUN`), where the kernel has these. Not `DEFER_TASKRUN`:
//! completions then come through io_uring_enter only, and a thread to which it
//! is refused midway, by a seccomp filter that another thread has set, would
//! wait for ever for buffers that it can't take back. Without it, they come with
//! any system call.

use std::fmt;
use std::io;
use std::thread::ThreadId;
use std::time::Duration;

use io_uring::{IoUring, Probe};
use kumiki_calls::{CallSet, Request, call};
use kumiki_sys::pause::pause;

use crate::lack::Lack;
use crate::reason::lack;
use crate::table::{Files, available, translate};

/// Interval between two looks for completions of a ring that has broken.
const LOOK: Duration = Duration::from_micros(200);

/// A ring of one thread.
pub(crate) struct Ring {
    ring: IoUring,
    thread: ThreadId,
    /// Calls that this kernel's io_uring has.
    calls: CallSet,
    /// Requests in the submission queue, in its order.
    queued: Vec<usize>,
    /// Requests to be made plain.
    others: Vec<usize>,
    /// Enters that still succeed, and the entries that each submits.
    #[cfg(test)]
    cut: Option<(usize, usize)>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring of the calling thread for batches of up to `slots` requests.
    pub(crate) fn new(slots: usize) -> Result<Self, Lack> {
        let entries = slots.next_power_of_two() as u32;
        let ring = build(entries).map_err(|error| lack(&error))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(|error| {
            let reason = format!("the kernel does not say which operations it has: {error}");
            Lack::new(reason, "Linux 5.6 or later")
        })?;
        Ok(Ring {
            ring,
            thread: std::thread::current().id(),
            calls: available(&probe),
            queued: Vec::with_capacity(slots),
            others: Vec::with_capacity(slots),
            #[cfg(test)]
            cut: None,
        })
    }

    /// True if this kernel's io_uring has the call.
    #[inline]
    pub(crate) fn has(&self, sysnum: u16) -> bool {
        self.calls.get(sysnum) == Some(true)
    }

    /// True if the calling thread may submit here.
    pub(crate) fn is_of_this_thread(&self) -> bool {
        self.thread == std::thread::current().id()
    }

    /// Makes the calls; returns whether the ring can be used again.
    ///
    /// # Safety
    /// As for [`OwnRing::run`](crate::OwnRing::run).
    pub(crate) unsafe fn run(&mut self, requests: &[Request], results: &mut [i64]) -> bool {
        self.queued.clear();
        self.others.clear();
        self.queue(requests);
        let whole = self.finish(requests, results);
        for at in &self.others {
            // SAFETY: the caller vouches for the call, which has not been made.
            results[*at] = unsafe { call(&requests[*at]) };
        }
        whole
    }

    fn queue(&mut self, requests: &[Request]) {
        let mut files = Files::default();
        let mut queue = self.ring.submission();
        for (at, request) in requests.iter().enumerate() {
            let entry = if self.calls.get(request.sysnum) == Some(true) {
                translate(request, &mut files)
            } else {
                None
            };
            let Some(entry) = entry else {
                self.others.push(at);
                continue;
            };
            let entry = entry.user_data(at as u64);
            // SAFETY: who vouches for the request keeps what it points to until
            // the batch is over, and it is over after its last completion.
            match unsafe { queue.push(&entry) } {
                Ok(()) => self.queued.push(at),
                Err(_full) => self.others.push(at),
            }
        }
    }

    /// Submits what is queued and collects all completions. What the kernel did
    /// not take is left to be made plain; `false` then.
    fn finish(&mut self, requests: &[Request], results: &mut [i64]) -> bool {
        let mut left = self.queued.len();
        loop {
            left -= self.collect(requests, results);
            if left == 0 {
                return true;
            }
            match self.enter(left) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The kernel takes from the front.
        let untaken = self.ring.submission().len();
        let taken = self.queued.len() - untaken;
        self.others.extend(self.queued.drain(taken..));
        left -= untaken;
        loop {
            left -= self.collect(requests, results);
            if left == 0 {
                return false;
            }
            // Returning from this system call brings completions too.
            pause(LOOK);
        }
    }

    /// Submits the queue, and waits until `wanted` completions are there.
    fn enter(&mut self, wanted: usize) -> io::Result<usize> {
        #[cfg(test)]
        if let Some((enters, entries)) = &mut self.cut {
            if *enters == 0 {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
            *enters -= 1;
            let (submit, wait) = (*entries as u32, 0);
            // SAFETY: no argument; fewer entries than there are is allowed.
            return unsafe { self.ring.submitter().enter::<()>(submit, wait, 0, None) };
        }
        self.ring.submit_and_wait(wanted)
    }

    /// Takes the results that have come; returns how many.
    fn collect(&mut self, requests: &[Request], results: &mut [i64]) -> usize {
        let mut count = 0;
        for completion in self.ring.completion() {
            let at = completion.user_data() as usize;
            let result = i64::from(completion.result());
            if is_undone(&requests[at], result) {
                self.others.push(at);
            } else {
                results[at] = settled(result);
            }
            count += 1;
        }
        count
    }
}

/// True if a result says that nothing was done, while the plain call might give another reason:
/// io_uring fetches names before it looks at the rest, does not touch its own rings, and does not
/// wait where it thinks that it need not.
fn is_undone(request: &Request, result: i64) -> bool {
    let error = -result as i32;
    match i64::from(request.sysnum) {
        // One that fails has closed, unless nothing was there.
        libc::SYS_close => error == libc::EBADF,
        // Has taken the message off the queue.
        libc::SYS_recvfrom if error == libc::EFAULT => false,
        // The answer that a search expects. Only one thing can be missing.
        libc::SYS_statx if error == libc::ENOENT => false,
        _ => matches!(
            error,
            libc::E2BIG
                | libc::EAGAIN
                | libc::EBADF
                | libc::ECANCELED
                | libc::EFAULT
                | libc::EINVAL
                | libc::ENAMETOOLONG
                | libc::ENOENT
                | libc::EOPNOTSUPP
                | libc::ERANGE
        ),
    }
}

/// A result as a system call would return it: the kernel's own codes for "to be
/// restarted" (512 to 516, include/linux/errno.h) never reach a program.
fn settled(result: i64) -> i64 {
    if (-516..=-512).contains(&result) { -i64::from(libc::EINTR) } else { result }
}

/// The best ring that this kernel makes.
fn build(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_submit_all().setup_coop_taskrun().setup_single_issuer();
    match builder.build(entries) {
        // Linux before 6.0 knows not all of these.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        built => built,
    }
}

#[cfg(test)]
mod tests;
