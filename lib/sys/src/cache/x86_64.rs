//! Cache lines of x86-64.

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _mm_clflush, _mm_mfence, _mm_prefetch};
use std::ptr;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use raw_cpuid::CpuId;

/// Bytes of a cache line on every x86-64 processor.
const LINE: usize = 64;

#[inline(always)]
pub(super) fn prefetch_to_read(address: usize) {
    let address = ptr::without_provenance::<i8>(address);
    // SAFETY: SSE is part of x86-64, and a prefetch is a hint: any address is allowed.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}

#[inline(always)]
pub(super) fn prefetch_to_write(address: usize) {
    // The intrinsic with `_MM_HINT_ET0` is PREFETCHT0 for a processor of which nobody
    // said that it has PREFETCHW: the line comes shared, and has to be asked for again.
    //
    // SAFETY: reads and writes nothing that a program can see and cannot fault;
    // processors that do not know it take it for a NOP in 64-bit mode.
    unsafe { asm!("prefetchw [{}]", in(reg) address, options(nomem, nostack, preserves_flags)) };
}

pub(super) fn evict(bytes: &[u8]) {
    // A slice that begins within a line may end within one more.
    let ends = bytes.chunks(LINE).map(<[u8]>::as_ptr);
    let lines = ends.chain(bytes.last().map(std::ptr::from_ref));
    match has_clflushopt() {
        // SAFETY: the processor has it, and the addresses are those of readable memory.
        true => lines.for_each(|line| unsafe { clflushopt(line) }),
        // SAFETY: SSE2 is part of x86-64, and the addresses are those of readable memory.
        false => lines.for_each(|line| unsafe { _mm_clflush(line) }),
    }
    // SAFETY: as above. Orders the evictions before the loads that follow.
    unsafe { _mm_mfence() };
}

/// Flushes as CLFLUSH does, but several can be in flight at a time.
///
/// # Safety
/// The processor has CLFLUSHOPT, and the address is that of readable memory.
#[inline(always)]
unsafe fn clflushopt(line: *const u8) {
    // SAFETY: the caller promises what it needs; it changes no value in memory.
    unsafe { asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) };
}

/// Asked once, as CPUID takes 10 µs in some virtual machines.
fn has_clflushopt() -> bool {
    const NO: u8 = 1;
    const YES: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    if KNOWN.load(Relaxed) == 0 {
        let extended = CpuId::new().get_extended_feature_info();
        let has = extended.is_some_and(|features| features.has_clflushopt());
        KNOWN.store(if has { YES } else { NO }, Relaxed);
    }
    KNOWN.load(Relaxed) == YES
}
