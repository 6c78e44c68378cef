//! Memory that a node has beside what it is started with, as its window names it: which, and
//! whether the node's kernel uses it.

use std::sync::atomic::Ordering;

use kumiki_boot::Piece;

use crate::module::abi;
use crate::window::Window;

/// A piece that came while a node ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its memory.
    pub piece: Piece,
    /// True from before the node's kernel knows of it until that has removed it.
    pub is_used: bool,
}

fn place(n: usize) -> usize {
    abi::BLOCKS_AT + abi::BLOCK_AT + n * abi::BLOCK_BYTES
}

impl Window {
    /// Bytes of which sizes and addresses of such memory are multiples; 0 if the node's kernel adds
    /// none while it runs, or has never run.
    pub fn memory_unit(&self) -> u64 {
        self.memory.u64(abi::BLOCKS_AT).load(Ordering::Relaxed)
    }

    /// All that its host has offered and not taken back.
    pub fn blocks(&self) -> Vec<Block> {
        let block = |n| {
            let at = place(n);
            // Acquire: what its kernel did there comes before it says that it has let go.
            let state = self.memory.u32(at + abi::BLOCK_STATE).load(Ordering::Acquire);
            let word = |at| self.memory.u64(at).load(Ordering::Relaxed);
            let piece = Piece { address: word(at), bytes: word(at + abi::BLOCK_LENGTH) };
            (state != abi::BLOCK_NONE).then_some(Block { piece, is_used: state == abi::BLOCK_ON })
        };
        (0..abi::PIECES).filter_map(block).collect()
    }

    /// Offers the node's kernel one more piece; false if there is no room to say so.
    pub fn offer(&self, piece: &Piece) -> bool {
        let is_free = |&n: &usize| {
            let state = self.memory.u32(place(n) + abi::BLOCK_STATE);
            state.load(Ordering::Relaxed) == abi::BLOCK_NONE
        };
        let Some(n) = (0..abi::PIECES).find(is_free) else { return false };
        self.write_block(n, piece, abi::BLOCK_OFF);
        true
    }

    /// Offers these, and nothing else, to a kernel that is about to begin.
    pub fn offer_all(&self, pieces: &[Piece]) {
        self.write_blocks(pieces, abi::BLOCK_OFF);
    }

    /// Says what a kernel that is about to wake up uses.
    pub fn all_used(&self, pieces: &[Piece]) {
        self.write_blocks(pieces, abi::BLOCK_ON);
    }

    fn write_blocks(&self, pieces: &[Piece], state: u32) {
        self.memory.zero(abi::BLOCKS_AT, abi::BLOCKS_BYTES);
        for (n, piece) in pieces.iter().enumerate().take(abi::PIECES) {
            self.write_block(n, piece, state);
        }
    }

    fn write_block(&self, n: usize, piece: &Piece, state: u32) {
        let at = place(n);
        self.memory.u64(at).store(piece.address, Ordering::Relaxed);
        self.memory.u64(at + abi::BLOCK_LENGTH).store(piece.bytes, Ordering::Relaxed);
        // Release: whoever sees the state sees which memory that is.
        self.memory.u32(at + abi::BLOCK_STATE).store(state, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn pieces_are_offered_used_and_forgotten() {
        let window = Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES));
        assert_eq!((window.memory_unit(), window.blocks()), (0, vec![]));
        let piece = |n: u64| Piece { address: n << 27, bytes: 1 << 27 };
        window.set_record(b"{}");
        assert!((1..=64).all(|n| window.offer(&piece(n))) && !window.offer(&piece(65)));
        assert_eq!(window.record(), b"{}");
        window.memory.u32(place(1) + abi::BLOCK_STATE).store(abi::BLOCK_NONE, Ordering::Relaxed);
        assert_eq!(window.blocks().len(), 63);
        assert!(window.offer(&piece(70)));
        assert_eq!(window.blocks()[1], Block { piece: piece(70), is_used: false });
        window.all_used(&[piece(3)]);
        assert_eq!(window.blocks(), [Block { piece: piece(3), is_used: true }]);
        window.offer_all(&[piece(4)]);
        assert_eq!(window.blocks(), [Block { piece: piece(4), is_used: false }]);
        assert_eq!(window.record(), b"{}");
    }
}
