//! By what calls are found to have slept: a clock, and the kernel's count of sleeps. A call that took long without a sleep
//! had to wait for a cpu.

use std::mem::MaybeUninit;

use crate::errno;

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

/// Number of times that this thread has slept; only where `trial` allows the call.
pub(crate) fn sleeps() -> u64 {
    let before = errno::get();
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: room for what was used.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if answer != 0 {
        errno::set(before);
        // Each call that took long has slept, as far as is known.
        return now();
    }
    // SAFETY: it was written.
    unsafe { usage.assume_init() }.ru_nvcsw as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn sleeping_is_told_from_computing() {
        let before = sleeps();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        assert_eq!(sleeps(), before);
        std::thread::sleep(Duration::from_micros(10));
        assert!(sleeps() > before);
    }
}
