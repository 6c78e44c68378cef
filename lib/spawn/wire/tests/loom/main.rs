//! What library and server do at the words that both see, under every interleaving:
//! `cargo xtask loom`. A wake that is lost leaves all threads asleep, which loom tells.
#![cfg(loom)]

mod answer;
mod bell;

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering;

/// The checker's double of a word.
struct Word(AtomicU32);

impl kumiki_spawn_wire::Word for Word {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0.swap(value, order)
    }
}
