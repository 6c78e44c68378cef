//! What the processor can do, from CPUID.

#[cfg(target_arch = "x86_64")]
mod cpuid;

/// The processor's features that decide how Kumiki waits, copies and measures.
///
/// CPUID tells what the processor (or the hypervisor in its name) offers to
/// this cpu; hybrid processors differ between their cores in none of these.
/// They are x86-64's: other processors have none, and no name that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// `GenuineIntel`, `AuthenticAMD`, ….
    pub vendor: String,
    /// The processor's own name, e.g. `AMD EPYC 9354 32-Core Processor`.
    pub brand: String,
    /// UMONITOR, UMWAIT, TPAUSE in user mode (leaf 7, ECX bit 5).
    pub waitpkg: bool,
    /// MONITORX, MWAITX in user mode (leaf 8000_0001h, ECX bit 29).
    pub monitorx: bool,
    /// MONITOR, MWAIT in kernel mode (leaf 1, ECX bit 3).
    pub monitor: bool,
    /// The time stamp counter runs at one speed in all power states
    /// (leaf 8000_0007h, EDX bit 8).
    pub invariant_tsc: bool,
    /// RDTSCP (leaf 8000_0001h, EDX bit 27).
    pub rdtscp: bool,
    /// AVX2, and the operating system keeps the registers.
    pub avx2: bool,
    /// AVX-512 foundation, and the operating system keeps the registers.
    pub avx512f: bool,
    /// CLFLUSHOPT.
    pub clflushopt: bool,
    /// CLWB.
    pub clwb: bool,
    /// REP MOVSB is fast (leaf 7, EBX bit 9).
    pub erms: bool,
    /// Name of the hypervisor, if one says that it is there.
    pub hypervisor: Option<String>,
}

impl Features {
    /// Asks the processor that the calling thread runs on. Takes tens of
    /// microseconds in a virtual machine, where CPUID traps.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self::from_this_cpu();
        #[cfg(not(target_arch = "x86_64"))]
        Self::default()
    }
}
