//! Copying by whole cache lines with non-temporal stores, on one thread.
//!
//! An ordinary store first reads the line that it will overwrite; a
//! non-temporal one does not, so a copy moves two thirds of the bytes over the
//! bus. It collects a line in a write-combining buffer and must fill it at
//! once, hence the 64 bytes in one go. The copy runs through several stripes
//! side by side: each is a stream of its own for the hardware prefetchers,
//! which follow one stream only so far ahead.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ptr;

use kumiki_sys::cache::prefetch_to_read;

/// Bytes of a cache line on every x86-64 processor, and on most of aarch64.
const LINE: usize = 64;
/// Stripes copied side by side. Four are up to a tenth faster than one, eight
/// gain no more. Row `copy_cold`.
const STRIPES: usize = 4;
/// Lines of one stripe in a row: a row of the memory chip is left less often. Row `copy_cold`.
const GROUP: usize = 4;
/// Bytes that a stripe is asked for in advance, for the hardware prefetcher
/// starts late and stops at a page's end. Eight lines and more were slower. Row `copy_cold`.
const AHEAD: usize = 6 * LINE;

/// Copies `len` bytes past the caches.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes, and they have
/// no byte in common.
pub(crate) unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    let head = to.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: the first `head` ≤ len bytes of both.
    unsafe { ptr::copy_nonoverlapping(from, to, head) };
    let (line_to, line_from) = (to.wrapping_add(head), from.wrapping_add(head));
    let lines_of = best();
    // SAFETY: `lines` whole lines lie between head and tail on both sides,
    // `head` brought the destination to a line's start, and the processor has
    // what the chosen function needs.
    unsafe { lines_of(line_to, line_from, lines) };
    let (tail_to, tail_from) = (to.wrapping_add(tail), from.wrapping_add(tail));
    // SAFETY: the bytes from `tail` to `len` of both.
    unsafe { ptr::copy_nonoverlapping(tail_from, tail_to, len - tail) };
    stores_are_ordered();
}

/// Instructions that copy lines on one processor.
type CopyLines = unsafe fn(*mut u8, *const u8, usize);

/// The widest that this processor has.
#[cfg(target_arch = "x86_64")]
fn best() -> CopyLines {
    if is_x86_feature_detected!("avx512f") {
        avx512
    } else if is_x86_feature_detected!("avx2") {
        avx2
    } else {
        sse2
    }
}

#[cfg(target_arch = "aarch64")]
fn best() -> CopyLines {
    stnp
}

/// Non-temporal stores are not ordered by the release store that later tells another thread;
/// this orders them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn stores_are_ordered() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// Non-temporal stores are ordered as others are, by the release store that later tells another
/// thread: only of non-temporal loads, LDNP, an order by their address does not hold (Arm ARM, B2.9).
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn stores_are_ordered() {}

/// One way to copy a line.
trait Line {
    /// Copies 64 bytes.
    ///
    /// # Safety
    /// `from` is readable, `to` writable and at a multiple of 64, and the
    /// processor has the instructions.
    unsafe fn copy(to: *mut u8, from: *const u8);
}

/// Stores pairs of registers past the caches, as far as the processor heeds that.
#[cfg(target_arch = "aarch64")]
struct Stnp;

#[cfg(target_arch = "aarch64")]
impl Line for Stnp {
    #[inline(always)]
    unsafe fn copy(to: *mut u8, from: *const u8) {
        // SAFETY: reads 64 readable bytes, and writes 64 writable ones.
        unsafe {
            std::arch::asm!(
                "ldp {a:q}, {b:q}, [{from}]",
                "ldp {c:q}, {d:q}, [{from}, #32]",
                "stnp {a:q}, {b:q}, [{to}]",
                "stnp {c:q}, {d:q}, [{to}, #32]",
                from = in(reg) from,
                to = in(reg) to,
                a = out(vreg) _,
                b = out(vreg) _,
                c = out(vreg) _,
                d = out(vreg) _,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// [`stripes`] for that kind of line.
///
/// # Safety
/// As for [`stripes`].
#[cfg(target_arch = "aarch64")]
unsafe fn stnp(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: the caller promises the same.
    unsafe { stripes::<Stnp>(to, from, lines) }
}

// No closures here and below: one would be compiled without the processor's
// features, and each line would go through calls.
#[cfg(target_arch = "x86_64")]
macro_rules! line {
    ($name:ident, $function:ident, $feature:literal, $load:ident, $store:ident,
     $($part:ident at $offset:literal),+) => {
        #[doc = concat!("With ", $feature, ".")]
        struct $name;

        impl Line for $name {
            #[inline(always)]
            unsafe fn copy(to: *mut u8, from: *const u8) {
                // All loads before the stores: a buffer that is opened is filled.
                $(
                    // SAFETY: within the 64 readable bytes; the processor has it.
                    let $part = unsafe { $load(from.wrapping_add($offset).cast()) };
                )+
                $(
                    // SAFETY: within the 64 writable bytes, aligned as they are.
                    unsafe { $store(to.wrapping_add($offset).cast(), $part) };
                )+
            }
        }

        /// [`stripes`] for one kind of line.
        ///
        /// # Safety
        /// As for [`stripes`].
        #[target_feature(enable = $feature)]
        unsafe fn $function(to: *mut u8, from: *const u8, lines: usize) {
            // SAFETY: the caller promises the same, and this function has the
            // processor's feature.
            unsafe { stripes::<$name>(to, from, lines) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
line!(Sse2, sse2, "sse2", _mm_loadu_si128, _mm_stream_si128, a at 0, b at 16, c at 32, d at 48);
#[cfg(target_arch = "x86_64")]
line!(Avx2, avx2, "avx2", _mm256_loadu_si256, _mm256_stream_si256, a at 0, b at 32);

/// Instructions of AVX-512: those of the compiler are stable since Rust 1.89 only.
#[cfg(target_arch = "x86_64")]
struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Line for Avx512 {
    #[inline(always)]
    unsafe fn copy(to: *mut u8, from: *const u8) {
        // SAFETY: reads 64 readable bytes and writes 64 writable ones, aligned as they are; the processor
        // has it.
        unsafe {
            std::arch::asm!(
                "vmovdqu64 zmm0, [{from}]",
                "vmovntdq [{to}], zmm0",
                from = in(reg) from,
                to = in(reg) to,
                out("xmm0") _,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// [`stripes`] for that kind of line.
///
/// # Safety
/// As for [`stripes`]; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
unsafe fn avx512(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: the caller promises the same.
    unsafe { stripes::<Avx512>(to, from, lines) };
    // SAFETY: every processor with AVX-512 has it. The upper halves are zeros from here on, so that code
    // that knows none of them is not slowed; whatever the compiler keeps there it is told to be lost.
    unsafe {
        std::arch::asm!(
            "vzeroupper",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Copies `lines` lines, in stripes as long as they are equal, then the rest.
///
/// # Safety
/// `from` is readable and `to` writable for `lines` lines, `to` is at a
/// multiple of 64, and the processor has the instructions of `L`.
#[inline(always)]
unsafe fn stripes<L: Line>(to: *mut u8, from: *const u8, lines: usize) {
    let stripe = lines / STRIPES / GROUP * GROUP;
    for first in (0..stripe).step_by(GROUP) {
        for start in 0..STRIPES {
            for line in 0..GROUP {
                // SAFETY: first + line < stripe, so the sum is less than
                // STRIPES * stripe ≤ lines.
                unsafe { copy_line::<L>(to, from, start * stripe + first + line) };
            }
        }
    }
    for line in STRIPES * stripe..lines {
        // SAFETY: line < lines.
        unsafe { copy_line::<L>(to, from, line) };
    }
}

/// Copies one line and asks for a later one.
///
/// # Safety
/// As for [`stripes`], with `line` less than `lines`.
#[inline(always)]
unsafe fn copy_line<L: Line>(to: *mut u8, from: *const u8, line: usize) {
    let (to, from) = (to.wrapping_add(line * LINE), from.wrapping_add(line * LINE));
    prefetch_to_read(from.wrapping_add(AHEAD).addr());
    // SAFETY: the caller promises this line of both sides.
    unsafe { L::copy(to, from) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variant that this processor has, at sizes around the stripes.
    #[test]
    fn every_variant_copies_every_line_and_no_other() {
        #[repr(align(64))]
        #[derive(Clone, Copy, PartialEq, Debug)]
        struct Lines([u8; LINE]);

        #[cfg(target_arch = "aarch64")]
        let variants: [(&str, bool, CopyLines); 1] = [("stnp", true, stnp)];
        #[cfg(target_arch = "x86_64")]
        let variants: [(&str, bool, CopyLines); 3] = [
            ("sse2", true, sse2),
            ("avx2", is_x86_feature_detected!("avx2"), avx2),
            ("avx512f", is_x86_feature_detected!("avx512f"), avx512),
        ];
        for (name, available, variant) in variants {
            if !available {
                println!("skipped: this processor has no {name}");
                continue;
            }
            for lines in 0..=(2 * STRIPES * GROUP + 3) {
                let from: Vec<u8> =
                    (0..lines * LINE + 1).map(|at| (at * 7 + at / 251) as u8).collect();
                let mut to = vec![Lines([0xa5; LINE]); lines + 1];
                // SAFETY: `lines` lines and more on both sides, `to` aligned by
                // its type, the processor has it; the source is off by one.
                unsafe { variant(to.as_mut_ptr().cast(), from.as_ptr().wrapping_add(1), lines) };
                let copied: Vec<u8> = to[..lines].iter().flat_map(|line| line.0).collect();
                assert_eq!(copied, from[1..], "{name}, {lines} lines");
                assert_eq!(to[lines], Lines([0xa5; LINE]), "{name}, {lines} lines");
            }
        }
    }
}
