//! Waiting by the processor's own means: a monitor is armed on a cache line, and
//! the hardware thread rests until somebody stores to that line. No system call
//! on either side; but for the kernel the cpu is as busy as in a spin loop.
//!
//! | | Intel (WAITPKG) | AMD (MONITORX) |
//! |---|---|---|
//! | arm | UMONITOR r64 | MONITORX rax, ecx = edx = 0 |
//! | rest | UMWAIT r32, until TSC = edx:eax | MWAITX eax, ecx bit 1: for ebx ticks |
//! | ended by | a store, an interrupt, the time, the kernel's limit | a store, an interrupt, the time |
//! | manual | SDM volume 2B | APM volume 3 |
//!
//! The rest ends for many reasons, so what was waited for is looked at after
//! each; and once more between arming and resting, because a store before the
//! monitor was armed does not end the rest.

use std::arch::asm;
use std::time::Instant;

use crate::ticks::tsc;

/// A rest takes at most this many ticks of the TSC: the limit that Linux puts
/// into IA32_UMWAIT_CONTROL unless told otherwise (`umwait_control_cached`,
/// arch/x86/kernel/cpu/umwait.c); asking for more would get no more. 20 to 50 µs,
/// by which a deadline can be exceeded.
pub(crate) const REST_TICKS: u32 = 100_000;

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

/// Instructions that watch a cache line.
pub(crate) trait Monitor {
    /// Watches the line of `address` from now on.
    fn arm(&self, address: *const u8);
    /// Rests until the line is stored to, at most about `ticks` of the TSC.
    fn rest(&self, ticks: u32);
}

/// UMONITOR and UMWAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Umwait(());

impl Umwait {
    /// # Safety
    /// The processor has WAITPKG.
    pub(crate) unsafe fn new() -> Self {
        Umwait(())
    }
}

impl Monitor for Umwait {
    #[inline]
    fn arm(&self, address: *const u8) {
        // SAFETY: the processor has it (`new`). It is ordered like a load and
        // faults like one, and callers hand in the address of a live value.
        unsafe { asm!("umonitor {}", in(reg) address, options(nostack, preserves_flags)) }
    }

    #[inline]
    fn rest(&self, ticks: u32) {
        let until = tsc().wrapping_add(u64::from(ticks));
        // SAFETY: the processor has it (`new`); it changes the flags only.
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
    /// # Safety
    /// The processor has MONITORX.
    pub(crate) unsafe fn new() -> Self {
        Mwaitx(())
    }
}

impl Monitor for Mwaitx {
    #[inline]
    fn arm(&self, address: *const u8) {
        // SAFETY: the processor has it (`new`). It is ordered like a load and
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
    fn rest(&self, ticks: u32) {
        // SAFETY: the processor has it (`new`). The compiler keeps rbx for
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

/// What a rest does in a test.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pretended(pub(crate) fn());

#[cfg(test)]
impl Monitor for Pretended {
    fn arm(&self, address: *const u8) {
        assert!(!address.is_null());
    }

    fn rest(&self, ticks: u32) {
        assert_eq!(ticks, REST_TICKS);
        (self.0)();
    }
}

/// Dozes on the line of `address` until `ready`, or until `until` has come.
pub(crate) fn doze<T>(
    monitor: &impl Monitor,
    address: *const u8,
    until: Option<Instant>,
    ready: &mut impl FnMut() -> Option<T>,
) -> Option<T> {
    loop {
        monitor.arm(address);
        if let Some(value) = ready() {
            return Some(value);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        monitor.rest(REST_TICKS);
        if let Some(value) = ready() {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::arch::global_asm;
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

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

    /// Writes down what is done, and may do something in a rest.
    struct Scripted<'a> {
        log: &'a RefCell<Vec<&'static str>>,
        in_rest: &'a dyn Fn(),
    }

    impl Monitor for Scripted<'_> {
        fn arm(&self, _: *const u8) {
            self.log.borrow_mut().push("arm");
        }

        fn rest(&self, ticks: u32) {
            assert_eq!(ticks, REST_TICKS);
            self.log.borrow_mut().push("rest");
            (self.in_rest)();
        }
    }

    /// Dozes; `ready` becomes true at its n-th call.
    fn scripted(ready_at: usize, until: Option<Instant>, in_rest: &dyn Fn()) -> Vec<&'static str> {
        let log = RefCell::new(Vec::new());
        let monitor = Scripted { log: &log, in_rest };
        let mut calls = 0;
        let outcome = doze(&monitor, std::ptr::null(), until, &mut || {
            log.borrow_mut().push("ready?");
            calls += 1;
            (calls == ready_at).then_some(())
        });
        log.borrow_mut().push(if outcome.is_some() { "ready" } else { "time" });
        log.into_inner()
    }

    #[test]
    fn it_looks_between_arming_and_resting_and_after() {
        assert_eq!(scripted(1, None, &|| {}), ["arm", "ready?", "ready"]);
        assert_eq!(scripted(2, None, &|| {}), ["arm", "ready?", "rest", "ready?", "ready"]);
    }

    #[test]
    fn a_rest_that_ends_for_nothing_is_taken_up_again() {
        let log = scripted(4, None, &|| {});
        let round = ["arm", "ready?", "rest", "ready?"];
        assert_eq!(log[..8], [round, round].concat());
    }

    #[test]
    fn a_deadline_ends_it_after_a_last_look() {
        let past = Some(Instant::now());
        assert_eq!(scripted(usize::MAX, past, &|| {}), ["arm", "ready?", "time"]);
        let soon = Instant::now() + Duration::from_millis(2);
        let log =
            scripted(usize::MAX, Some(soon), &|| std::thread::sleep(Duration::from_millis(1)));
        assert!(log.ends_with(&["rest", "ready?", "arm", "ready?", "time"]), "{log:?}");
        assert!(Instant::now() >= soon);
    }
}
