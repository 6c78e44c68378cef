//! A cpu's place for a processing thread that spins, as others see it.
//!
//! A requesting thread that leaves its batch to the thread of a seat waits for the
//! results, or for the seat to have no thread: then it makes the calls itself. Who
//! leaves a seat for want of a thread rings for it.

use super::post::Post;
use super::{Doorbell, ThreadInfo};

/// One cpu's place.
#[derive(Debug)]
#[cfg_attr(target_arch = "x86_64", repr(align(64)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(128)))]
pub(crate) struct CpuSeat {
    /// Bell at which its thread sleeps.
    pub(crate) bell: Doorbell,
    pub(crate) cpu: usize,
    /// Its place among the seats.
    pub(crate) number: usize,
    pub(crate) post: Post,
    /// State of its thread, with a line of its own, which is written with every request.
    pub(crate) thread: ThreadInfo,
}

impl CpuSeat {
    pub(crate) fn new((number, cpu): (usize, usize)) -> Self {
        CpuSeat {
            bell: Doorbell::default(),
            cpu,
            number,
            post: Post::default(),
            thread: ThreadInfo::default(),
        }
    }

    /// True if a thread is awake here, and sees a request soon.
    #[inline]
    pub(crate) fn is_hot(&self) -> bool {
        self.post.is_taken() && self.bell.looks_soon()
    }
}

#[cfg(test)]
mod tests {
    use super::super::PostState;
    use super::*;

    #[test]
    fn a_thread_is_hot_once_it_looks() {
        let seat = CpuSeat::new((0, 0));
        assert!(!seat.is_hot());
        // As if a thread had been started, and had not run yet.
        assert_eq!(seat.post.enter(), PostState::Vacant);
        seat.bell.note_call();
        assert!(!seat.is_hot());
        assert!(seat.bell.looks() && !seat.bell.looks());
        assert!(seat.is_hot());
        // Awake: nothing to wait for.
        seat.bell.call();
        assert!(seat.is_hot());
    }
}
