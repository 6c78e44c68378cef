//! MONITOR and MWAIT, which only the kernel may use: by the device of a module
//! (`struct parasc_mwait` in `node/kernel/uapi/parasc.h`). What the shadow threads of the paper
//! did, whose programs ran in kernel mode.

use std::arch::asm;

use kumiki_sys::syscall;

use super::Monitor;
use crate::device;
use crate::machine::Machine;

/// A rest takes at most this long, as those of the other instructions do.
const REST_NS: u64 = 50_000;
/// `PARASC_IOC_MWAIT`.
const IOC_MWAIT: u32 = 1 << 30 | (size_of::<MwaitRequest>() as u32) << 16 | 0xbd << 8 | 16;
const SYS_IOCTL: usize = 16;

/// `struct parasc_mwait`.
#[repr(C)]
struct MwaitRequest {
    word: u64,
    value: u64,
    timeout_ns: u64,
    hint: u32,
    flags: u32,
}

/// The device, which is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mwait(());

impl Mwait {
    /// Opens it if the module is loaded, shows its device to this user, and the processor has
    /// MONITOR.
    pub(crate) fn of(machine: Machine) -> Option<Self> {
        machine.mwait.then_some(Mwait(()))
    }
}

impl Monitor for Mwait {
    /// The word's address, and what it has held.
    type Armed = (u64, u64);

    #[inline]
    fn arm(&self, address: *const u8) -> (u64, u64) {
        let word = address.map_addr(|address| address & !7).cast::<u64>();
        let value;
        // SAFETY: reads eight bytes of the line of a live value, as the monitor instructions
        // do, whoever writes to them meanwhile; they are compared and nothing else.
        unsafe {
            asm!("mov {}, qword ptr [{}]", out(reg) value, in(reg) word,
                 options(nostack, readonly, preserves_flags));
        }
        (word.expose_provenance() as u64, value)
    }

    #[inline]
    fn rest(&self, (word, value): (u64, u64), _: u32) {
        let asked = MwaitRequest { word, value, timeout_ns: REST_NS, hint: 0, flags: 0 };
        let device = device::descriptor() as u64;
        let args = [device, u64::from(IOC_MWAIT), (&raw const asked).expose_provenance() as u64];
        let [device, request, asked] = args;
        // SAFETY: the structure of this request, which is read only; what was waited for is
        // looked at after it, whatever it answers.
        let _ = unsafe { syscall::raw(SYS_IOCTL, [device, request, asked, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_that_of_the_header() {
        assert_eq!((IOC_MWAIT, size_of::<MwaitRequest>()), (0x4020_bd10, 32));
    }

    #[test]
    fn the_word_is_the_one_that_the_address_is_in() {
        let words = [1_u64, 0x0102_0304_0506_0708];
        let last = (&raw const words[1]).cast::<u8>().wrapping_add(7);
        let (at, value) = Mwait(()).arm(last);
        assert_eq!((at, value), ((&raw const words[1]).addr() as u64, words[1]));
    }
}
