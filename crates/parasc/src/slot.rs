//! One request: a cache line that changes its owner by its status.
//!
//! # States
//! | from | to | who | order |
//! |---|---|---|---|
//! | `FREE`, `SUCCESS`, `ERROR` | `REQUEST` | the requesting thread whose lane it is | Release |
//! | `REQUEST` | `PROCESSING` | whoever is to execute it, by swap | Acquire |
//! | `PROCESSING` | `SUCCESS`, `ERROR` | who has executed it | Release |
//!
//! # Why a request is executed once
//! Only the winner of the swap from `REQUEST` to `PROCESSING` executes the call,
//! and nobody but the slot's requesting thread puts it back to `REQUEST`, which
//! it does only after it has seen `SUCCESS` or `ERROR`. Every other word in the
//! area says no more than where to look: a stale one costs a look, or a swap
//! that fails.
//!
//! The swap acquires what the release store of `REQUEST` published (number and
//! arguments, and whatever the requesting thread wrote to its buffers before);
//! the load that sees `SUCCESS` or `ERROR` acquires the result and what the
//! call wrote to those buffers.
//!
//! The area is memory of this process alone, and what stands there is believed: who places a
//! request has checked it. A kernel module that is to serve the same memory must check what
//! it reads.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use kumiki_sys::syscall::MAX_ARGS;

use crate::primitive::{AtomicI64, AtomicU32, AtomicU64};
use kumiki_calls::Request;

pub(crate) const REQUEST: u32 = 2;
pub(crate) const PROCESSING: u32 = 3;
pub(crate) const SUCCESS: u32 = 4;
pub(crate) const ERROR: u32 = 5;

/// One system call in shared memory (`struct parasc_slot`, kernel/uapi/parasc.h).
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    status: AtomicU32,
    /// Number of the call in the low half, of its arguments in the high half.
    call: AtomicU32,
    args: [AtomicU64; MAX_ARGS],
    ret_val: AtomicI64,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Slot>() == 64 && align_of::<Slot>() == 64);
    assert!(std::mem::offset_of!(Slot, call) == 4);
    assert!(std::mem::offset_of!(Slot, args) == 8);
    assert!(std::mem::offset_of!(Slot, ret_val) == 56);
};

/// For comparison with the header (`tests.rs`).
#[cfg(all(test, not(loom)))]
pub(crate) const LAYOUT: &[(&str, usize)] = &[
    ("sizeof(struct parasc_slot)", size_of::<Slot>()),
    ("offsetof(struct parasc_slot, status)", std::mem::offset_of!(Slot, status)),
    ("offsetof(struct parasc_slot, sysnum)", std::mem::offset_of!(Slot, call)),
    ("offsetof(struct parasc_slot, args)", std::mem::offset_of!(Slot, args)),
    ("offsetof(struct parasc_slot, ret_val)", std::mem::offset_of!(Slot, ret_val)),
];

impl Slot {
    /// Writes the request and hands it to whoever comes first.
    ///
    /// By the lane's requesting thread, whose last request is over.
    #[inline(always)]
    pub(crate) fn publish(&self, request: &Request) {
        self.call.store(request.head() as u32, Relaxed);
        for (to, from) in self.args.iter().zip(&request.args) {
            to.store(*from, Relaxed);
        }
        // Release: partner is the swap in `take`.
        self.status.store(REQUEST, Release);
    }

    /// Takes the request to execute it. `true` for one caller only.
    #[inline(always)]
    pub(crate) fn take(&self) -> bool {
        // Acquire: partner is `publish`.
        self.status.compare_exchange(REQUEST, PROCESSING, Acquire, Relaxed).is_ok()
    }

    /// Whether a request waits here: a hint for those who want to take it.
    #[inline(always)]
    pub(crate) fn is_requested(&self) -> bool {
        self.status.load(Relaxed) == REQUEST
    }

    /// What was taken: number, count and those arguments that count.
    #[inline(always)]
    pub(crate) fn taken(&self) -> Request {
        let call = self.call.load(Relaxed);
        let count = (call >> 16) as usize;
        Request {
            sysnum: call as u16,
            args_num: (call >> 16) as u16,
            args: std::array::from_fn(
                |at| if at < count { self.args[at].load(Relaxed) } else { 0 },
            ),
            ..Request::default()
        }
    }

    /// Gives the result of what was taken.
    #[inline(always)]
    pub(crate) fn finish(&self, ret_val: i64) {
        self.ret_val.store(ret_val, Relaxed);
        let error = (-4095..0).contains(&ret_val);
        // Release: partner is `result`.
        self.status.store(if error { ERROR } else { SUCCESS }, Release);
    }

    /// The result, once there is one.
    #[inline(always)]
    pub(crate) fn result(&self) -> Option<i64> {
        // Acquire: partner is `finish`.
        match self.status.load(Acquire) {
            SUCCESS | ERROR => Some(self.ret_val.load(Relaxed)),
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> &AtomicU32 {
        &self.status
    }
}
