//! A word that both sides see, as the protocols need it: the models have a double of it.

use core::sync::atomic::{AtomicU32, Ordering};

/// An atomic word.
pub trait Word {
    /// Loads as the atomic does.
    fn load(&self, order: Ordering) -> u32;
    /// Stores as the atomic does.
    fn store(&self, value: u32, order: Ordering);
    /// Swaps as the atomic does.
    fn swap(&self, value: u32, order: Ordering) -> u32;
}

impl Word for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.swap(value, order)
    }
}
