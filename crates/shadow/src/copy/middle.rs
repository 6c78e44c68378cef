//! Whether what lies between two ends is in a cache, without copying any of it.

use std::hint::black_box;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::costs::ticks_of;

/// Where lines are read, in eighths of the length. Two places: a cache that is full of
/// the rest has lost some lines here and there.
const PLACES: [usize; 2] = [3, 5];
/// Lines at each. The first one is not timed: its page may be one that this cpu has not
/// seen for long, which takes as long as some lines from memory.
const LINES: usize = 4;
const PAGE: usize = 4096;
/// Bytes between them, so that no prefetcher follows.
const STEP: usize = 576;

/// Some lines around the middle of a source or a destination, borrowed for `'a`.
pub(super) struct Middle<'a> {
    from: *const MaybeUninit<u8>,
    len: usize,
    borrowed: PhantomData<&'a [u8]>,
}

// SAFETY: it reads what a `&[u8]` may read, which is `Send`.
unsafe impl Send for Middle<'_> {}

impl<'a> Middle<'a> {
    /// Of some bytes.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        // SAFETY: this is what a `&'a [u8]` says.
        unsafe { Middle::new(bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Of the `len` bytes at `from`, some tens of thousands.
    ///
    /// # Safety
    /// They are valid for reads for `'a`, and nobody writes to them while the result is
    /// in use.
    #[inline]
    pub(super) unsafe fn new(from: *const MaybeUninit<u8>, len: usize) -> Self {
        let fits = len / 8 * PLACES[0] >= PAGE && len / 8 * PLACES[1] + LINES * STEP <= len;
        assert!(fits, "{len} bytes have no middle");
        Middle { from, len, borrowed: PhantomData }
    }

    /// Address of the first line.
    #[cfg(test)]
    pub(super) fn start(&self) -> usize {
        self.from.addr() + self.offset(PLACES[0])
    }

    /// Ticks until the lines of the nearer place are here.
    //
    // Without a closure for `map`, which the compiler would make a function elsewhere.
    #[inline(always)]
    pub(super) fn ticks(&self) -> u64 {
        let [one, other] = PLACES;
        self.read(one, 0..1);
        self.read(other, 0..1);
        let one = ticks_of(|| self.read(one, 1..LINES));
        one.min(ticks_of(|| self.read(other, 1..LINES)))
    }

    /// Where a place begins: with a page, so that its lines are in one.
    #[inline]
    fn offset(&self, place: usize) -> usize {
        let at = self.len / 8 * place;
        at - (self.from.addr() + at) % PAGE
    }

    /// Reads lines at a place.
    #[inline(always)]
    fn read(&self, place: usize, lines: Range<usize>) {
        for line in lines {
            // SAFETY: within the length, as `new` has checked.
            let at = unsafe { self.from.add(self.offset(place) + line * STEP) };
            // SAFETY: of the bytes that the caller of `new` vouches for.
            black_box(unsafe { at.read_volatile() });
        }
    }
}
