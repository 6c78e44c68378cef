//! One cache line: whose it is, and what it holds.
//!
//! The status says who may touch the rest. It also carries the number of the
//! request, 61 bits that are never reused, so that an old status is never taken
//! for a new one.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::primitive::AtomicU64;

/// Words of a line for captures or result.
pub const WORDS: usize = 6;

/// Captures, then result.
pub type Words = [MaybeUninit<u64>; WORDS];

/// Runs what the words hold and leaves the result there; `true` if it did not
/// panic.
pub type Run = unsafe fn(*mut Words) -> bool;

/// Words of a request beside its status.
#[derive(Debug)]
pub struct Request {
    pub(crate) run: Option<Run>,
    pub(crate) words: Words,
}

/// Owners of a line, and what they may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum LineState {
    Free = 0,
    Request = 1,
    Processing = 2,
    Success = 3,
    Error = 4,
    Taken = 5,
    /// The server shall end.
    Close = 6,
}

const STATE_BITS: u32 = 3;
const STATE: u64 = (1 << STATE_BITS) - 1;

/// The status of request `n` in this state.
#[inline(always)]
pub(crate) fn status(n: u64, state: LineState) -> u64 {
    n << STATE_BITS | state as u64
}

/// The request that a status is about.
#[inline(always)]
pub(crate) fn number(status: u64) -> u64 {
    status >> STATE_BITS
}

/// True if a status says this state, of whatever request.
#[inline(always)]
pub(crate) fn is(status: u64, state: LineState) -> bool {
    status & STATE == state as u64
}

/// The line that changes hands. Aligned to two lines, because processors fetch
/// lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Line {
    pub(crate) status: AtomicU64,
    pub(crate) request: UnsafeCell<Request>,
}

#[cfg(not(loom))]
const _: () = {
    assert!(std::mem::offset_of!(Line, status) == 0);
    assert!(std::mem::offset_of!(Line, request) == 8);
    assert!(size_of::<Request>() == 56, "status and request fill one cache line");
};

impl Line {
    pub(crate) fn new() -> Self {
        Line {
            status: AtomicU64::new(status(0, LineState::Free)),
            request: UnsafeCell::new(Request { run: None, words: [MaybeUninit::uninit(); WORDS] }),
        }
    }
}
