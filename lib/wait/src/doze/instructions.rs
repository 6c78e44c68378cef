//! The monitor instructions of x86-64.

use std::arch::asm;

use super::Monitor;
use crate::machine::Machine;
use crate::ticks::tsc;

/// UMWAIT's control: bit 0 clear asks for C0.2, the deeper of its two states
/// (SDM, UMWAIT). The kernel may allow only C0.1
/// (/sys/devices/system/cpu/umwait_control/enable_c02). The short waits, for
/// which C0.1 would be better, have ended in the spin loop.
const C02: u32 = 0;

/// MWAITX's hint: C0, the state that is left fastest (APM, MWAITX: bits 7:4 hold
/// the state minus 1). Linux delays with the same (`MWAITX_DISABLE_CSTATES`,
/// arch/x86/include/asm/mwait.h).
const MWAITX_C0: u32 = 0xf0;
/// MWAITX's extension: ebx limits the time.
const MWAITX_TIMER: u32 = 1 << 1;

/// UMONITOR and UMWAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Umwait(());

impl Umwait {
    /// Makes one if the processor has WAITPKG.
    pub(crate) fn of(machine: Machine) -> Option<Self> {
        machine.waitpkg.then_some(Umwait(()))
    }
}

impl Monitor for Umwait {
    type Armed = ();

    #[inline]
    fn arm(&self, address: *const u8) {
        // SAFETY: the processor has it (`of`). It is ordered like a load and
        // faults like one, and callers hand in the address of a live value.
        unsafe { asm!("umonitor {}", in(reg) address, options(nostack, preserves_flags)) }
    }

    #[inline]
    fn rest(&self, (): (), ticks: u32) {
        let until = tsc().wrapping_add(u64::from(ticks));
        // SAFETY: the processor has it (`of`); it changes the flags only.
        unsafe {
            asm!(
                "umwait {:e}",
                in(reg) C02,
                in("eax") until as u32,
                in("edx") (until >> 32) as u32,
                options(nostack),
            );
        }
    }
}

/// MONITORX and MWAITX.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mwaitx(());

impl Mwaitx {
    /// Makes one if the processor has MONITORX.
    pub(crate) fn of(machine: Machine) -> Option<Self> {
        machine.monitorx.then_some(Mwaitx(()))
    }
}

impl Monitor for Mwaitx {
    type Armed = ();

    #[inline]
    fn arm(&self, address: *const u8) {
        // SAFETY: the processor has it (`of`). It is ordered like a load and
        // faults like one, and callers hand in the address of a live value.
        unsafe {
            asm!(
                "monitorx",
                in("rax") address,
                in("ecx") 0,
                in("edx") 0,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline]
    fn rest(&self, (): (), ticks: u32) {
        // SAFETY: the processor has it (`of`). The compiler keeps rbx for
        // itself, so it is put back.
        unsafe {
            asm!(
                "xchg rbx, {ticks}",
                "mwaitx",
                "xchg rbx, {ticks}",
                ticks = inout(reg) u64::from(ticks) => _,
                in("eax") MWAITX_C0,
                in("ecx") MWAITX_TIMER,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::arch::global_asm;

    // What the assembler makes of the mnemonics used above.
    global_asm!(
        ".pushsection .rodata",
        "kumiki_wait_test_encodings:",
        "umonitor rax",
        "umonitor r9",
        "umwait ecx",
        "monitorx",
        "mwaitx",
        ".popsection",
    );

    unsafe extern "C" {
        #[link_name = "kumiki_wait_test_encodings"]
        static ENCODINGS: [u8; 19];
    }

    #[test]
    fn the_assembler_agrees_with_the_manuals() {
        // SAFETY: the bytes assembled above, which nobody changes.
        let encodings = unsafe { &ENCODINGS };
        let expected: [&[u8]; 5] = [
            &[0xf3, 0x0f, 0xae, 0xf0],       // F3 0F AE /6, register form
            &[0xf3, 0x41, 0x0f, 0xae, 0xf1], // the same with REX.B
            &[0xf2, 0x0f, 0xae, 0xf1],       // F2 0F AE /6
            &[0x0f, 0x01, 0xfa],             // 0F 01 FA
            &[0x0f, 0x01, 0xfb],             // 0F 01 FB
        ];
        assert_eq!(encodings[..], expected.concat());
    }
}
