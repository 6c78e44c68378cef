//! The counter that a core reads in some cycles, trusted or not.

/// The time stamp counter; on aarch64 nanoseconds of the system's counter, which is one for all cores.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 has RDTSC, and Linux leaves it to user mode unless
    // a process has asked to be denied it (PR_SET_TSC).
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The time stamp counter; on aarch64 nanoseconds of the system's counter, which is one for all cores.
///
/// Its rate is the machine's choice, from some megahertz to one gigahertz: what is compared with a number of
/// ticks is written for a counter that is as fast as a core.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn ticks() -> u64 {
    let count: u64;
    // SAFETY: Linux leaves CNTVCT_EL0 to user mode, or answers in its place.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
    }
    ((u128::from(count) * u128::from(ns_of_one())) >> 32) as u64
}

/// Nanoseconds of one count, as a fraction of 2³².
#[cfg(target_arch = "aarch64")]
#[inline]
fn ns_of_one() -> u64 {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    static KNOWN: AtomicU64 = AtomicU64::new(0);
    // Whoever finds nothing there finds the same out: no order is needed.
    match KNOWN.load(Relaxed) {
        0 => {
            let hz: u64;
            // SAFETY: as above, of CNTFRQ_EL0.
            unsafe {
                std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags));
            }
            // A firmware that has not said it: as if it were one a nanosecond.
            let ns = (1_000_000_000_u64 << 32).checked_div(hz).filter(|ns| *ns > 0);
            let ns = ns.unwrap_or(1 << 32);
            KNOWN.store(ns, Relaxed);
            ns
        }
        ns => ns,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_counter_advances() {
        let (begin, clock) = (ticks(), Instant::now());
        while clock.elapsed() < Duration::from_millis(2) {}
        let passed = ticks().wrapping_sub(begin);
        // Of a counter in nanoseconds no less; a time stamp counter is faster than 100 MHz.
        assert!(passed > 200_000, "{passed}");
    }
}
