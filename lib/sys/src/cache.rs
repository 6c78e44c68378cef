//! The processor's caches.

#[cfg(not(target_arch = "x86_64"))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
use aarch64 as lines;
#[cfg(target_arch = "x86_64")]
use x86_64 as lines;

/// Bytes that what two threads write stands apart by, so that no line has both. 64 on x86-64. On aarch64 128: lines are 64
/// there on most cores and 128 on others (Apple's, ThunderX), and a program is built for all of them; who has lines of
/// 256 (A64FX) loses time and nothing else.
pub const LINE: usize = if cfg!(target_arch = "x86_64") { 64 } else { 128 };

/// Prefetches the line of `address` for a read. A hint, valid for any address.
#[inline(always)]
pub fn prefetch_to_read(address: usize) {
    lines::prefetch_to_read(address);
}

/// Prefetches the line of `address` for a write: the core gets it exclusively while it
/// goes on. A hint, valid for any address; does nothing on a processor without PREFETCHW.
#[inline(always)]
pub fn prefetch_to_write(address: usize) {
    lines::prefetch_to_write(address);
}

/// Evicts `bytes` from all caches of all cpus, writing changed lines back first. The
/// pages stay mapped. Takes some 10 ns a line, or 100 on processors without CLFLUSHOPT.
///
/// ```
/// let bytes = vec![7_u8; 10_000];
/// kumiki_sys::cache::evict(&bytes); // the next read comes from memory
/// assert_eq!(bytes[9_999], 7);
/// ```
pub fn evict(bytes: &[u8]) {
    lines::evict(bytes);
}
