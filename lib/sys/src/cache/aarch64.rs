//! Cache lines of aarch64, which say how long they are.

use std::arch::asm;

#[inline(always)]
pub(super) fn prefetch_to_read(address: usize) {
    // SAFETY: reads and writes nothing that a program can see, and cannot fault.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags))
    };
}

#[inline(always)]
pub(super) fn prefetch_to_write(address: usize) {
    // SAFETY: as above.
    unsafe {
        asm!("prfm pstl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags))
    };
}

pub(super) fn evict(bytes: &[u8]) {
    let line = shortest_line();
    // A slice that begins within a line may end within one more.
    let ends = bytes.chunks(line).map(<[u8]>::as_ptr);
    for line in ends.chain(bytes.last().map(std::ptr::from_ref)) {
        // SAFETY: the address is that of readable memory; Linux leaves DC CIVAC to user mode. It changes
        // no value in memory.
        unsafe { asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: orders the evictions before the loads that follow.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Bytes of the shortest line of all data caches (CTR_EL0.DminLine, in words).
fn shortest_line() -> usize {
    let ctr: u64;
    // SAFETY: Linux leaves this register to user mode, or answers in its place.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    4 << (ctr >> 16 & 15)
}
