//! The bell of a thread that sleeps in poll, epoll or select, at sockets and files: it is
//! woken by a descriptor.
//!
//! # States
//! One flag, `heard`, and an eventfd(2). `heard` is false while the sleeper asks for a write: the
//! first ring then sets it and writes, and those after it find it set and make no system call.
//!
//! | transition | who | when |
//! |---|---|---|
//! | false → true | any ringer, by a swap; who has found false writes | R2, R3 |
//! | any → true | the sleeper only | [`PollBell::hush`]: it looks by itself for a while |
//! | any → false | the sleeper only | S2 |
//!
//! # Steps
//! ```text
//!   sleeper                                   ringer
//!   S0 poll: sleep while the counter is 0     R1 put there what is to be found
//!   S1 read the counter: it is 0              R2 swap(heard, true)
//!   S2 swap(heard, false)                     R3 it was false? add 1 to the counter
//!   S3 look for all that is there; S0
//! ```
//!
//! # Why no wake is lost
//! S2 and R2 are swaps of one word, so one comes before the other.
//!
//! - R2 before S2: the swaps in between, if any, carry its Release on, and S2 acquires. So S3 sees
//!   what R1 has put there.
//! - R2 after S2: the first such swap finds false, so R3 writes, and after S2. Its write comes after
//!   S1 and stays until the next S1, which is after the next S0: poll returns.
//!
//! # Why S1 is first
//! Between S2 and a read that came after it a ring may set the flag and write; the read would eat
//! that write, the flag would stay true over a counter of 0, and no ring would write ever again.
//! `PollBell` has no way to read the counter alone.
//!
//! # What is not lost but idle
//! A ringer may be held up between R2 and R3 while the sleeper does S1 to S3, also several times.
//! Its write then makes one poll return with nothing to be found.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::primitive::{AtomicBool, Descriptor};

/// Wakes a thread that waits for a descriptor by poll, epoll or select, from any other thread, by
/// one system call however often it is rung until it looks.
///
/// ```
/// use std::sync::Mutex;
/// use kumiki_wait::PollBell;
/// use rustix::event::{PollFd, PollFlags, poll};
///
/// let (bell, queue) = (PollBell::new()?, Mutex::new(Vec::new()));
/// std::thread::scope(|threads| {
///     threads.spawn(|| {
///         queue.lock().unwrap().push("a job");
///         bell.ring();
///     });
///     let mut jobs = Vec::new();
///     while jobs.is_empty() {
///         poll(&mut [PollFd::new(&bell, PollFlags::IN)], None)?;
///         bell.listen();
///         jobs.append(&mut queue.lock().unwrap());
///     }
///     assert_eq!(jobs, ["a job"]);
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One thread at a time sleeps by it: of two, the one that listens takes the other's wake.
#[derive(Debug)]
pub struct PollBell {
    heard: AtomicBool,
    descriptor: Descriptor,
}

impl PollBell {
    /// One whose sleeper listens.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn new() -> std::io::Result<Self> {
        Ok(PollBell { heard: AtomicBool::new(false), descriptor: Descriptor::new()? })
    }

    /// Makes the descriptor readable, if the sleeper listens and nobody has rung since. Call it
    /// after what the sleeper is to find has been put there.
    #[inline]
    pub fn ring(&self) {
        // R2. Partner: S2, both ways.
        if !self.heard.swap(true, AcqRel) {
            self.descriptor.add_one();
        }
    }

    /// Arms the bell, by the sleeper, before it looks for what others have put there, and then
    /// waits: the descriptor is not readable any more, and from here on a ring makes it so.
    pub fn listen(&self) {
        self.descriptor.reset();
        self.listen_again();
    }

    /// Listens as [`listen`](Self::listen) does, without the system call that makes the descriptor
    /// unreadable: for a sleeper that has been told so by its last poll. Should it be readable, the
    /// next poll returns at once.
    #[inline]
    pub fn listen_again(&self) {
        // S2. Partner: R2, both ways.
        self.heard.swap(false, AcqRel);
    }

    /// Hushes the bell, by the sleeper: rings make no system call until it listens, which it must
    /// before it waits. For one that is awake, and looks by itself.
    #[inline]
    pub fn hush(&self) {
        // A swap, though nobody asks what was there: a store would end the chain of swaps by which
        // S2 sees what a ringer has put there that came before, and found that another one writes.
        self.heard.swap(true, Acquire);
    }

    /// Waits until the descriptor is readable.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn poll(&self) {
        self.descriptor.poll();
    }

    /// The order in which a wake is lost: for a model that shows that it would find it.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn listen_too_early(&self) {
        self.listen_again();
        self.descriptor.reset();
    }
}

#[cfg(not(loom))]
impl std::os::fd::AsFd for PollBell {
    /// Descriptor to be waited for; reading it is [`listen`](PollBell::listen)'s.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(bell: &PollBell) -> bool {
        poll(&mut [PollFd::new(bell, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_the_first_ring_until_its_sleeper_listens() {
        let bell = PollBell::new().unwrap();
        assert!(!is_readable(&bell));
        for _ in 0..3 {
            bell.ring();
            bell.ring();
            assert!(is_readable(&bell));
            bell.listen();
            assert!(!is_readable(&bell));
        }
    }

    #[test]
    fn hushed_it_makes_no_call_until_its_sleeper_listens() {
        let bell = PollBell::new().unwrap();
        bell.hush();
        bell.ring();
        assert!(!is_readable(&bell));
        bell.listen_again();
        bell.ring();
        assert!(is_readable(&bell));
        // Without the read it goes on to be readable.
        bell.listen_again();
        assert!(is_readable(&bell));
        bell.listen();
        assert!(!is_readable(&bell));
    }
}
