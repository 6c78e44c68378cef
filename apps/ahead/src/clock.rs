//! The clock by which calls are found to have slept.

use std::mem::MaybeUninit;

/// Nanoseconds of a clock that goes on evenly; from the vDSO, which leaves `errno` alone.
pub(crate) fn now() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: room for a time.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: it was written.
    let time = unsafe { time.assume_init() };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
