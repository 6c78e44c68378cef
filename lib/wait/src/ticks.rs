//! Time as a spin loop needs it: one instruction, no conversion.

use rustix::time::{ClockId, clock_gettime};

use crate::machine::Machine;

/// Reads ticks: of the time stamp counter, or nanoseconds of the kernel's monotonic clock
/// where that counter cannot be trusted.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    tsc: bool,
}

impl Default for Ticks {
    fn default() -> Self {
        Self::new()
    }
}

impl Ticks {
    /// The ticks of this machine; the first call takes some 100 µs.
    pub fn new() -> Self {
        Self::of(Machine::this())
    }

    pub(crate) fn of(machine: Machine) -> Self {
        Ticks { tsc: machine.tsc }
    }

    /// Ticks now; they may be read a little earlier or later than the program
    /// says. Take differences with `wrapping_sub`: a counter that was behind on
    /// another cpu then ends a spin too early, which is harmless.
    #[inline(always)]
    pub fn now(self) -> u64 {
        if self.tsc { tsc() } else { monotonic_ns() }
    }

    /// Ticks until `now` from a reading of the time stamp counter by another thread,
    /// if the two go together.
    pub(crate) fn since(self, tsc: u64, now: u64) -> Option<u64> {
        now.checked_sub(tsc).filter(|_| self.tsc)
    }
}

/// The time stamp counter, trusted or not.
#[inline(always)]
pub(crate) fn tsc() -> u64 {
    #[cfg(sim)]
    if let Some(machine) = kumiki_sys::sim::machine() {
        return machine.ticks();
    }
    kumiki_sys::ticks()
}

#[cold]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_sources_advance() {
        for tsc in [false, true] {
            let ticks = Ticks { tsc };
            let before = ticks.now();
            std::thread::sleep(Duration::from_millis(2));
            // At 1 GHz, the least of both.
            assert!(ticks.now() - before >= 1_000_000, "tsc: {tsc}");
        }
    }
}
