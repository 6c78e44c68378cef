//! Whether bytes are in a cache, told by some of their lines, without copying any.

use std::hint::black_box;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::costs::ticks_of;

/// Places in a long source or destination, in eighths of the length: a cache that is full
/// of the rest has lost some lines here and there. Row `copy_stale_half`.
pub(crate) const MIDDLE: [usize; 2] = [3, 5];
/// The place in a piece at one end. One takes longer than the nearest of two, as memory is
/// measured by; that errs on the side of memory. Row `copy_stale_ends`.
pub(crate) const END: [usize; 1] = [5];
/// Lines at each. The first one is not timed: its page may be one that this cpu has not
/// seen for long, which takes as long as some lines from memory. Row `copy_warm`.
const LINES: usize = 4;
const PAGE: usize = 4096;
/// Bytes between them, so that no prefetcher follows. Row `copy_cold`.
const STEP: usize = 576;

/// Some lines at each of `N` places, borrowed for `'a`.
pub(crate) struct Probe<'a, const N: usize> {
    /// Places to probe, each at the beginning of a page, so that its lines are in one.
    places: [*const MaybeUninit<u8>; N],
    borrowed: PhantomData<&'a [u8]>,
}

// SAFETY: it reads what a `&[u8]` may read, which is `Send`.
unsafe impl<const N: usize> Send for Probe<'_, N> {}

impl<'a, const N: usize> Probe<'a, N> {
    /// Probes of some bytes, at so many eighths of them.
    pub(crate) fn of(bytes: &'a [u8], eighths: [usize; N]) -> Self {
        // SAFETY: this is what a `&'a [u8]` says.
        unsafe { Probe::new(bytes.as_ptr().cast(), bytes.len(), eighths) }
    }

    /// Probes of the `len` bytes at `from`, two pages or more for [`END`], four for [`MIDDLE`].
    ///
    /// # Safety
    /// They are valid for reads for `'a`, and nobody writes to them while the result is
    /// in use.
    #[inline(always)]
    pub(crate) unsafe fn new(
        from: *const MaybeUninit<u8>,
        len: usize,
        eighths: [usize; N],
    ) -> Self {
        let mut places = [from; N];
        for (place, eighths) in places.iter_mut().zip(eighths) {
            let at = len / 8 * eighths;
            assert!(at >= PAGE && at + LINES * STEP <= len, "{len} bytes have no such place");
            *place = from.wrapping_add(at - (from.addr() + at) % PAGE);
        }
        Probe { places, borrowed: PhantomData }
    }

    /// Address of the first line.
    #[cfg(test)]
    pub(crate) fn start(&self) -> usize {
        self.places[0].addr()
    }

    /// Ticks until the lines of the nearest place are here.
    //
    // Without a closure for `map`, which the compiler would make a function elsewhere.
    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        for place in self.places {
            Self::read(place, 0..1);
        }
        let mut least = u64::MAX;
        for place in self.places {
            least = least.min(ticks_of(|| Self::read(place, 1..LINES)));
        }
        least
    }

    /// Reads lines of a place.
    #[inline(always)]
    fn read(place: *const MaybeUninit<u8>, lines: Range<usize>) {
        for line in lines {
            // SAFETY: within the length, as `new` has checked, and of the bytes that its
            // caller vouches for.
            black_box(unsafe { place.wrapping_add(line * STEP).read_volatile() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_lies_within_wherever_the_bytes_begin() {
        let bytes = vec![0; 40_000];
        let within = |bytes: &[u8], first: usize| {
            let last = first + (LINES - 1) * STEP;
            let all = bytes.as_ptr().addr()..bytes.as_ptr().addr() + bytes.len();
            assert!(all.contains(&first) && all.contains(&last), "{} bytes", bytes.len());
            assert_eq!(first / PAGE, last / PAGE);
        };
        for start in (0..2 * PAGE).step_by(61) {
            let piece = &bytes[start..][..2 * PAGE];
            within(piece, Probe::of(piece, END).places[0].addr());
            let long = &bytes[start..][..4 * PAGE];
            let [one, other] = Probe::of(long, MIDDLE).places.map(<*const _>::addr);
            within(long, one);
            within(long, other);
            assert!(one < other);
        }
    }

    #[test]
    #[should_panic(expected = "4096 bytes have no such place")]
    fn a_page_has_no_place() {
        let _ = Probe::of(&[0; PAGE], END);
    }
}
