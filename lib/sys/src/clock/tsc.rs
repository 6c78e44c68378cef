//! The time stamp counter, and whether it deserves trust.

use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
use std::fs;

use crate::cpu::Features;

/// The time stamp counter of a machine on which it deserves trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tsc(());

impl Tsc {
    /// # Errors
    /// Why it cannot be trusted here, in words.
    pub(super) fn trusted() -> Result<Self, String> {
        let read = |name: &str| {
            let path = format!("/sys/devices/system/clocksource/clocksource0/{name}_clocksource");
            fs::read_to_string(path).ok()
        };
        let (current, available) = (read("current"), read("available"));
        judge(&Features::detect(), current.as_deref(), available.as_deref())?;
        Ok(Tsc(()))
    }

    /// Ticks at the beginning of an interval.
    ///
    /// RDTSC alone may be executed before earlier and after later instructions.
    /// LFENCE before it waits until all earlier ones have completed, LFENCE after
    /// it keeps later ones from starting (Intel SDM volume 2, RDTSC; on AMD Linux
    /// makes LFENCE serialising at boot, `init_amd`, arch/x86/kernel/cpu/amd.c).
    /// CPUID would serialise too, but it traps in virtual machines.
    #[inline(always)]
    pub(super) fn start(self) -> u64 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_lfence() };
        // SAFETY: every x86-64 has RDTSC, and Linux leaves it to user mode unless
        // a process has asked to be denied it (PR_SET_TSC).
        let ticks = unsafe { _rdtsc() };
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_lfence() };
        ticks
    }

    /// Ticks at the end of an interval: RDTSCP waits for all earlier instructions
    /// (not for their stores to be seen by others) by itself.
    #[inline(always)]
    pub(super) fn end(self) -> u64 {
        let mut cpu = 0;
        // SAFETY: CPUID has RDTSCP (`judge`), or there would be no `self`.
        let ticks = unsafe { __rdtscp(&mut cpu) };
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_lfence() };
        ticks
    }
}

/// Clocksources of guests that are computed from the TSC: their being current
/// says that the hypervisor vouches for it.
const ON_TOP_OF_TSC: [&str; 3] = ["kvm-clock", "hyperv_clocksource_tsc_page", "xen"];

fn judge(
    features: &Features,
    current: Option<&str>,
    available: Option<&str>,
) -> Result<(), String> {
    if !features.invariant_tsc {
        return Err("the processor does not call its TSC invariant".to_owned());
    }
    if !features.rdtscp {
        return Err("the processor has no RDTSCP".to_owned());
    }
    let Some(current) = current.map(str::trim).filter(|name| !name.is_empty()) else {
        // Without /sys the processor's word has to do.
        return Ok(());
    };
    let listed = available.unwrap_or_default().split_whitespace();
    if current == "tsc"
        || ON_TOP_OF_TSC.contains(&current)
        || listed.into_iter().any(|name| name == "tsc")
    {
        return Ok(());
    }
    Err(format!(
        "the kernel has dropped the TSC (clocksource {current}): it found it unstable or was told so"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(invariant_tsc: bool, rdtscp: bool) -> Features {
        Features { invariant_tsc, rdtscp, ..Features::default() }
    }

    #[test]
    fn the_kernel_and_the_processor_must_agree() {
        let good = features(true, true);
        assert_eq!(judge(&good, Some("tsc\n"), Some("tsc hpet acpi_pm \n")), Ok(()));
        assert_eq!(judge(&good, Some("kvm-clock\n"), Some("kvm-clock acpi_pm \n")), Ok(()));
        // Chosen otherwise by a person, but not found unstable.
        assert_eq!(judge(&good, Some("hpet\n"), Some("tsc hpet acpi_pm \n")), Ok(()));
        assert_eq!(judge(&good, None, None), Ok(()));
        let dropped = judge(&good, Some("hpet\n"), Some("hpet acpi_pm \n"));
        assert!(dropped.unwrap_err().contains("clocksource hpet"));
    }

    #[test]
    fn an_ordinary_tsc_is_not_taken() {
        let tsc = Some("tsc");
        assert!(judge(&features(false, true), tsc, tsc).is_err());
        assert!(judge(&features(true, false), tsc, tsc).is_err());
    }
}
