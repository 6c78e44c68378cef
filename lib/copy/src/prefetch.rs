//! Asking for lines before they are needed (the paper's Fig. 9).

use kumiki_sys::cache::{prefetch_to_read, prefetch_to_write};
use kumiki_sys::pages;

/// Bytes of a cache line on every x86-64 processor, and on most of aarch64.
const LINE: usize = 64;

/// The addresses of a copy. A prefetch reads and writes nothing and cannot
/// fault, so no right to the memory is needed.
pub(crate) struct Footprint {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) len: usize,
}

impl Footprint {
    /// True if the destination has pages already, by the one in its middle.
    pub(crate) fn is_backed(&self) -> bool {
        pages::is_present(self.to + self.len / 2)
    }

    /// Asks for all lines of the source, to read, and of the destination, to
    /// write. It does not wait for the copy, so in a large one it runs too far
    /// ahead, as the paper found: what it fetched is evicted before its turn.
    pub(crate) fn prefetch(self) {
        for at in (0..self.len).step_by(LINE) {
            prefetch_to_read(self.from.wrapping_add(at));
            prefetch_to_write(self.to.wrapping_add(at));
        }
    }
}
