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
//!
//! MONITOR and MWAIT themselves only the kernel may use: a module does, by one system call
//! for each rest.
//!
//! Processors other than x86-64 do without.

#[cfg_attr(not(target_arch = "x86_64"), path = "doze/no_instructions.rs")]
mod instructions;
#[cfg(target_arch = "x86_64")]
mod mwait;

use std::time::Instant;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use instructions::Mwait;
pub(crate) use instructions::{Mwaitx, Umwait};
#[cfg(target_arch = "x86_64")]
pub(crate) use mwait::Mwait;

/// A rest takes at most this many ticks of the TSC: the limit that Linux puts
/// into IA32_UMWAIT_CONTROL unless told otherwise (`umwait_control_cached`,
/// arch/x86/kernel/cpu/umwait.c); asking for more would get no more. 20 to 50 µs,
/// by which a deadline can be exceeded.
pub(crate) const REST_TICKS: u32 = 100_000;

/// Instructions that watch a cache line.
pub(crate) trait Monitor {
    /// State between the two, where the processor does not keep it.
    type Armed;

    /// Watches the line of `address` from now on.
    fn arm(&self, address: *const u8) -> Self::Armed;
    /// Rests until the line is stored to, at most about `ticks` of the TSC.
    fn rest(&self, armed: Self::Armed, ticks: u32);
}

/// A monitor for tests, and its rest.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pretended(pub(crate) fn());

#[cfg(test)]
impl Monitor for Pretended {
    type Armed = ();

    fn arm(&self, address: *const u8) {
        assert!(!address.is_null());
    }

    fn rest(&self, (): (), ticks: u32) {
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
        let armed = monitor.arm(address);
        if let Some(value) = ready() {
            return Some(value);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        monitor.rest(armed, REST_TICKS);
        if let Some(value) = ready() {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    /// Writes down what is done, and may do something in a rest.
    struct Scripted<'a> {
        log: &'a RefCell<Vec<&'static str>>,
        in_rest: &'a dyn Fn(),
    }

    impl Monitor for Scripted<'_> {
        type Armed = ();

        fn arm(&self, _: *const u8) {
            self.log.borrow_mut().push("arm");
        }

        fn rest(&self, (): (), ticks: u32) {
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
