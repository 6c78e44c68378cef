//! Whether what lies between two ends is in a cache, without copying any of it.

use std::hint::black_box;
use std::marker::PhantomData;

use super::costs::ticks_of;

/// Lines that are read: a few that are elsewhere by chance do not decide.
const LINES: usize = 8;

/// Some lines around the middle of a source, borrowed for `'a`.
pub(super) struct Middle<'a> {
    from: *const u8,
    /// Bytes from one line to the next, each on a page of its own if there are so
    /// many: no prefetcher follows.
    step: usize,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Middle<'a> {
    /// Of some bytes.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        // SAFETY: this is what a `&'a [u8]` says.
        unsafe { Middle::new(bytes.as_ptr(), bytes.len()) }
    }

    /// Of the `len` bytes at `from`: the quarter in the middle.
    ///
    /// # Safety
    /// They are valid for reads, and nobody writes to them, for `'a`.
    pub(super) unsafe fn new(from: *const u8, len: usize) -> Self {
        let start = len / 8 * 3;
        // SAFETY: start ≤ len, so it stays within what the caller vouches for.
        let from = unsafe { from.add(start) };
        Middle { from, step: len / 4 / LINES, borrowed: PhantomData }
    }

    /// Address of the first line.
    #[cfg(test)]
    pub(super) fn start(&self) -> usize {
        self.from.addr()
    }

    /// Ticks until all lines are here.
    pub(super) fn ticks(&self) -> u64 {
        ticks_of(|| {
            for line in 0..LINES {
                // SAFETY: 3/8 + 1/4 of the length is within it.
                let at = unsafe { self.from.add(line * self.step) };
                // SAFETY: as above, of bytes that the caller of `new` vouches for.
                black_box(unsafe { at.read_volatile() });
            }
        })
    }
}
