//! The processor's caches.

use std::arch::x86_64::{_mm_clflush, _mm_mfence};

/// Bytes of a cache line on every x86-64 processor.
const LINE: usize = 64;

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
