//! The processor's caches.

use std::arch::asm;
use std::arch::x86_64::{_mm_clflush, _mm_mfence};

/// Bytes of a cache line on every x86-64 processor.
const LINE: usize = 64;

/// Asks for the line of `address` to be written to: it comes from whichever core has
/// it, alone, while this one goes on. A hint, for any address; nothing where the
/// processor does not know PREFETCHW.
#[inline(always)]
pub fn prefetch_to_write(address: usize) {
    // The intrinsic with `_MM_HINT_ET0` is PREFETCHT0 for a processor of which nobody
    // said that it has PREFETCHW: the line comes shared, and has to be asked for again.
    //
    // SAFETY: reads and writes nothing that a program can see and cannot fault;
    // processors that do not know it take it for a NOP in 64-bit mode.
    unsafe { asm!("prefetchw [{}]", in(reg) address, options(nomem, nostack, preserves_flags)) };
}

/// Removes `bytes` from all caches of all cpus; changed lines are written back
/// first. Their pages stay mapped. Takes some 10 to 100 ns a line.
///
/// ```
/// let bytes = vec![7_u8; 10_000];
/// kumiki_sys::cache::evict(&bytes); // the next read comes from memory
/// assert_eq!(bytes[9_999], 7);
/// ```
pub fn evict(bytes: &[u8]) {
    // A slice that begins within a line may end within one more.
    let ends = bytes.chunks(LINE).map(<[u8]>::as_ptr);
    for line in ends.chain(bytes.last().map(std::ptr::from_ref)) {
        // SAFETY: SSE2 is part of x86-64, and the address is that of readable
        // memory.
        unsafe { _mm_clflush(line) };
    }
    // SAFETY: as above. Orders the evictions before the loads that follow.
    unsafe { _mm_mfence() };
}
