//! What is added up for a line.

use crate::when::Moment;

/// Sum on a line: of a file, or of everything in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    /// Bytes, or how many files.
    pub(crate) amount: u64,
    /// The latest time; [`Moment::NEVER`] if none is asked for.
    pub(crate) time: Moment,
}

impl Sum {
    /// Sum of nothing; GNU du's total is of 1970 at least.
    pub(crate) const NOTHING: Sum = Sum { amount: 0, time: Moment::EPOCH };

    pub(crate) fn add(&mut self, other: Sum) {
        self.amount = self.amount.saturating_add(other.amount);
        self.time = self.time.max(other.time);
    }
}
