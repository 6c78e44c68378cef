//! Posts of processing threads that sleep, and which requests are for them.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use super::ThreadInfo;
use super::reserve::Reserve;
use crate::primitive::{AtomicBool, AtomicU64, fence};

/// The pool of one engine.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) thread_infos: Vec<ThreadInfo>,
    /// Threads that are there and idle.
    pub(crate) reserve: Reserve,
    /// Lanes whose requests are for the pool, a bit each.
    lanes: AtomicU64,
    /// True if requests for calls that are soon over are for the pool, too.
    rescue: AtomicBool,
}

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        Pool {
            thread_infos: (0..threads).map(|_| ThreadInfo::default()).collect(),
            reserve: Reserve::new(threads),
            lanes: AtomicU64::new(0),
            rescue: AtomicBool::new(false),
        }
    }

    /// Number of threads that there can be.
    pub(crate) fn threads(&self) -> usize {
        self.thread_infos.len()
    }

    /// Lanes whose requests are for the pool.
    #[inline(always)]
    pub(crate) fn lanes(&self) -> u64 {
        self.lanes.load(Acquire)
    }

    /// Says that a lane's requests are for the pool from now on.
    pub(crate) fn take_lane(&self, lane: usize) {
        self.lanes.fetch_or(1 << lane, AcqRel);
    }

    /// Says that they are not any more.
    pub(crate) fn leave_lane(&self, lane: usize) {
        self.lanes.fetch_and(!(1 << lane), AcqRel);
    }

    /// Says that requests for calls that are soon over, one of which has been
    /// placed, are for the pool too.
    pub(crate) fn rescue(&self) {
        // Partner: the fence in `end_rescue`.
        fence(SeqCst);
        if !self.rescues() {
            self.rescue.store(true, Release);
        }
    }

    /// Says that they are not any more, unless one `waits`: `false` then.
    pub(crate) fn end_rescue(&self, waits: impl Fn() -> bool) -> bool {
        if waits() {
            return false;
        }
        if !self.rescues() {
            return true;
        }
        self.rescue.store(false, Release);
        // Partner: the fence in `rescue`. For one that was placed just now they may
        // have been taken to be.
        fence(SeqCst);
        !waits()
    }

    pub(crate) fn rescues(&self) -> bool {
        self.rescue.load(Acquire)
    }
}
