//! A clock for short intervals: the time stamp counter where it is invariant,
//! `CLOCK_MONOTONIC_RAW` elsewhere.

use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
use std::time::Duration;

/// A calibrated clock. Reading it takes some tens of cycles.
#[derive(Clone, Debug)]
pub struct Clock {
    ns_per_tick: f64,
    tsc: bool,
}

impl Clock {
    /// Calibrates the time stamp counter against `CLOCK_MONOTONIC_RAW` over `span`.
    pub fn calibrate(span: Duration) -> Self {
        let pair = || (monotonic_raw_ns(), rdtsc_ordered());
        let (ns0, t0) = pair();
        std::thread::sleep(span);
        let (ns1, t1) = pair();
        Clock {
            ns_per_tick: (ns1 - ns0) as f64 / (t1 - t0) as f64,
            tsc: true,
        }
    }

    /// Ticks now; nothing after it is executed before it.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        if self.tsc {
            rdtsc_ordered()
        } else {
            monotonic_raw_ns()
        }
    }

    /// Ticks now; everything before it has been executed.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        if self.tsc {
            rdtsc_ordered()
        } else {
            monotonic_raw_ns()
        }
    }

    /// Length of `ticks`, nanoseconds.
    #[inline]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }
}

fn rdtsc_ordered() -> u64 {
    let mut aux = 0;
    // SAFETY: every x86-64 that Linux runs on with an invariant TSC has rdtscp.
    let ticks = unsafe { __rdtscp(&mut aux) };
    // SAFETY: part of the x86-64 baseline.
    unsafe { _mm_lfence() };
    let _ = _rdtsc;
    ticks
}

fn monotonic_raw_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
