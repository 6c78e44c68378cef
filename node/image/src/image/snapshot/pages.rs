//! Pages of a node's memory that a snapshot keeps: neither those that its kernel has free, nor
//! what is in those that are all zeros.

use kumiki_boot::{Piece, SLICE_BYTES, WINDOW_BYTES};
use kumiki_node_wire::memory::Memory;

pub const PAGE_BYTES: u64 = 4096;
/// An address, and a number of pages with the kind of their contents.
pub const RUN_BYTES: usize = 16;
const ZEROS: u64 = 1 << 63;

/// Pages that follow one another and are kept alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub address: u64,
    pub pages: u64,
    /// Nothing of them is kept but that.
    pub zeros: bool,
}

impl Run {
    pub fn bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES)
    }

    pub fn to_bytes(self) -> [u8; RUN_BYTES] {
        let pages = self.pages | if self.zeros { ZEROS } else { 0 };
        let mut bytes = [0; RUN_BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..].copy_from_slice(&pages.to_le_bytes());
        bytes
    }

    pub fn of_bytes(bytes: &[u8; RUN_BYTES]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let pages = word(8);
        Run { address: word(0), pages: pages & !ZEROS, zeros: pages & ZEROS != 0 }
    }
}

/// The memory of a node that is its kernel's, in the order in which it is mapped: all pieces
/// without the window, and the slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Vec<Piece>);

impl Places {
    pub fn of(slice: u64, pieces: &[Piece]) -> Self {
        let mut places = pieces.to_vec();
        if let Some(first) = places.first_mut() {
            first.bytes = first.bytes.saturating_sub(WINDOW_BYTES);
        }
        places.push(Piece { address: slice, bytes: SLICE_BYTES });
        Places(places)
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|place| place.bytes).sum()
    }

    /// Offset of a range of addresses, if it lies in one of them.
    pub fn offset(&self, address: u64, bytes: u64) -> Option<usize> {
        let mut begin = 0;
        for place in &self.0 {
            let within = address.checked_sub(place.address).filter(|at| *at < place.bytes);
            if let Some(within) = within {
                return (bytes <= place.bytes - within).then_some((begin + within) as usize);
            }
            begin += place.bytes;
        }
        None
    }

    /// Looks through the memory, mapped as the places are, of which pages are `free`.
    pub fn runs(&self, memory: &Memory, free: &[(u64, u64)]) -> Vec<Run> {
        let free = self.marked(free);
        let mut runs: Vec<Run> = Vec::new();
        let (mut page, mut bytes) = (0, [0; PAGE_BYTES as usize]);
        for place in &self.0 {
            // Places that follow one another are runs of their own.
            let mut open = false;
            for address in (place.address..place.end()).step_by(PAGE_BYTES as usize) {
                let at = page * PAGE_BYTES as usize;
                page += 1;
                if free[page - 1] {
                    open = false;
                    continue;
                }
                memory.read(at, &mut bytes);
                let zeros = bytes == [0; PAGE_BYTES as usize];
                match runs.last_mut().filter(|run| open && run.zeros == zeros) {
                    Some(run) => run.pages += 1,
                    None => runs.push(Run { address, pages: 1, zeros }),
                }
                open = true;
            }
        }
        runs
    }

    /// A mark for each page that is free by the node's word. What it says of pages that are not
    /// its own is nothing.
    fn marked(&self, free: &[(u64, u64)]) -> Vec<bool> {
        let mut marks = vec![false; (self.bytes() / PAGE_BYTES) as usize];
        let mut begin = 0;
        for place in &self.0 {
            let (low, high) = (place.address / PAGE_BYTES, place.end() / PAGE_BYTES);
            for &(first, pages) in free {
                let from = first.clamp(low, high) - low;
                let to = first.saturating_add(pages).clamp(low, high) - low;
                marks[begin + from as usize..begin + to as usize].fill(true);
            }
            begin += (high - low) as usize;
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLICE: u64 = 0x3_0000;

    fn places() -> Places {
        let piece = |address, pages| Piece { address, bytes: pages * PAGE_BYTES };
        // One right behind the other's window, and a gap.
        let first = Piece { address: 1 << 30, bytes: 8 * PAGE_BYTES + WINDOW_BYTES };
        Places::of(SLICE, &[first, piece(first.end(), 4), piece(2 << 30, 4)])
    }

    #[test]
    fn the_window_is_not_the_kernels_and_the_slice_is() {
        let places = places();
        assert_eq!(places.bytes(), 24 * PAGE_BYTES);
        let offset = |address, pages| places.offset(address, pages * PAGE_BYTES);
        assert_eq!(offset(1 << 30, 8), Some(0));
        assert_eq!(offset(1 << 30, 9), None);
        assert_eq!(offset((1 << 30) + 8 * PAGE_BYTES, 1), None);
        assert_eq!(offset((1 << 30) + 8 * PAGE_BYTES + WINDOW_BYTES, 1), Some(0x8000));
        assert_eq!(offset(SLICE, 8), Some(16 * 4096));
        assert_eq!((offset(u64::MAX, 1), offset(SLICE, u64::MAX >> 12)), (None, None));
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        for run in [
            Run { address: 0x1000, pages: 3, zeros: true },
            Run { address: !0xfff, pages: ZEROS - 1, zeros: false },
        ] {
            assert_eq!(Run::of_bytes(&run.to_bytes()), run);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Each page that is not free is in one run, and as it is.
        #[test]
        fn runs_have_every_page_that_is_not_free(
            filled in prop::collection::vec(any::<bool>(), 24),
            free in prop::collection::vec((0..30u64, 0..6u64, 0..3usize), 0..6),
        ) {
            let places = places();
            let memory = Memory::zeroed(places.bytes());
            for (n, filled) in filled.iter().enumerate().filter(|(_, filled)| **filled) {
                prop_assert!(*filled);
                memory.write(n * 4096 + 4095, &[1]);
            }
            let base = [1 << 18, (1 << 18) + 8 + (WINDOW_BYTES >> 12), SLICE >> 12];
            let free: Vec<_> = free.iter().map(|&(at, pages, which)| (base[which] + at, pages)).collect();
            let is_free = |page: u64| free.iter().any(|&(at, pages)| (at..at + pages).contains(&page));
            let runs = places.runs(&memory, &free);
            let mut page = 0;
            for place in places.pieces() {
                for address in (place.address..place.end()).step_by(4096) {
                    let found: Vec<_> = runs.iter()
                        .filter(|run| (run.address..run.address + run.bytes()).contains(&address))
                        .collect();
                    if is_free(address >> 12) {
                        prop_assert!(found.is_empty(), "{address:#x}");
                    } else {
                        prop_assert_eq!(found.len(), 1);
                        prop_assert_eq!(found[0].zeros, !filled[page]);
                    }
                    page += 1;
                }
            }
            prop_assert!(runs.iter().all(|run| places.offset(run.address, run.bytes()).is_some()));
        }
    }
}
