//! What this machine's processor can do for a waiting thread, asked once.

use std::fs;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_sys::clock::tsc_verdict;
use kumiki_sys::cpu::Features;

#[cfg(target_arch = "x86_64")]
use crate::device;

/// The features that decide how to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// UMONITOR and UMWAIT.
    pub(crate) waitpkg: bool,
    /// MONITORX and MWAITX.
    pub(crate) monitorx: bool,
    /// MONITOR and MWAIT by the kernel module.
    pub(crate) mwait: bool,
    /// True if there is a time stamp counter, or aarch64's counter, that can be trusted.
    pub(crate) tsc: bool,
    /// Some cores have several hardware threads.
    pub(crate) smt: bool,
}

/// A set of bits rather than a `OnceLock`: a fork(2) while another thread asks must not
/// leave the child with a lock that nobody will release.
static KNOWN: AtomicU8 = AtomicU8::new(0);
const ASKED: u8 = 1 << 7;

impl Machine {
    /// This machine. The first call takes some 50 µs.
    pub(crate) fn this() -> Self {
        #[cfg(sim)]
        if kumiki_sys::sim::machine().is_some() {
            return Machine { tsc: true, ..Machine::default() };
        }
        match KNOWN.load(Relaxed) {
            0 => {
                let machine = Self::ask();
                KNOWN.store(machine.bits(), Relaxed);
                machine
            }
            bits => Self::from_bits(bits),
        }
    }

    fn ask() -> Self {
        let features = Features::detect();
        // One file instead of some for each cpu. Unknown neighbours are treated
        // kindly.
        let smt = fs::read("/sys/devices/system/cpu/smt/active");
        let smt = smt.map_or(true, |active| !active.starts_with(b"0"));
        Machine {
            waitpkg: features.waitpkg,
            monitorx: features.monitorx,
            // Without MONITOR there is nothing to open.
            #[cfg(target_arch = "x86_64")]
            mwait: features.monitor && device::open(),
            // The module is for x86-64.
            #[cfg(not(target_arch = "x86_64"))]
            mwait: false,
            // The counter of aarch64 is one for all cores.
            tsc: cfg!(target_arch = "aarch64") || tsc_verdict().is_ok(),
            smt,
        }
    }

    fn bits(self) -> u8 {
        let bit = |set, place| u8::from(set) << place;
        let processor = bit(self.waitpkg, 0) | bit(self.monitorx, 1);
        ASKED | processor | bit(self.tsc, 2) | bit(self.smt, 3) | bit(self.mwait, 4)
    }

    fn from_bits(bits: u8) -> Self {
        let bit = |place: u8| bits & 1 << place != 0;
        Machine { waitpkg: bit(0), monitorx: bit(1), tsc: bit(2), smt: bit(3), mwait: bit(4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_remembered() {
        let machine = Machine::ask();
        assert_eq!(Machine::this(), machine);
        assert_eq!(Machine::this(), machine);
        for bits in ASKED..ASKED + 32 {
            assert_eq!(Machine::from_bits(bits).bits(), bits);
        }
    }
}
