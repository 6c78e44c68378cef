//! No helper at all: what every fork has to beat.

use super::Fork;
use crate::shadow::sum::sum;

/// Main alone.
pub(crate) struct Sequential;

impl Fork for Sequential {
    const BOUND: bool = false;

    fn both<A: Send, B: Send>(
        &mut self,
        main: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        (main(), other())
    }

    fn sum(&mut self, data: &[f32]) -> f32 {
        sum(data)
    }
}
