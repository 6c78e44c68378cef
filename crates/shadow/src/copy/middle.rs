//! Whether what lies between two ends is in a cache, without copying any of it.

use std::hint::black_box;
use std::marker::PhantomData;

use super::costs::ticks_of;

/// Where lines are read, in eighths of the length. Two places: each may be a page that
/// this cpu has not seen for long, which takes as long as a line from memory.
const PLACES: [usize; 2] = [3, 5];
/// Lines at each: a few that are elsewhere by chance do not decide.
const LINES: usize = 4;
/// Bytes between them, so that no prefetcher follows.
const STEP: usize = 576;

/// Some lines around the middle of a source, borrowed for `'a`.
pub(super) struct Middle<'a> {
    from: *const u8,
    len: usize,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Middle<'a> {
    /// Of some bytes.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        // SAFETY: this is what a `&'a [u8]` says.
        unsafe { Middle::new(bytes.as_ptr(), bytes.len()) }
    }

    /// Of the `len` bytes at `from`, some tens of thousands.
    ///
    /// # Safety
    /// They are valid for reads, and nobody writes to them, for `'a`.
    pub(super) unsafe fn new(from: *const u8, len: usize) -> Self {
        assert!(len / 8 * PLACES[1] + LINES * STEP <= len, "{len} bytes have no middle");
        Middle { from, len, borrowed: PhantomData }
    }

    /// Address of the first line.
    #[cfg(test)]
    pub(super) fn start(&self) -> usize {
        self.from.addr() + self.len / 8 * PLACES[0]
    }

    /// Ticks until all lines are here.
    pub(super) fn ticks(&self) -> u64 {
        ticks_of(|| {
            for place in PLACES {
                for line in 0..LINES {
                    // SAFETY: within the length, as `new` has checked.
                    let at = unsafe { self.from.add(self.len / 8 * place + line * STEP) };
                    // SAFETY: of the bytes that the caller of `new` vouches for.
                    black_box(unsafe { at.read_volatile() });
                }
            }
        })
    }
}
