//! What a bench asks its subjects for.

use std::fmt::Debug;

use kumiki_measure::schema::Unit;
use serde::Serialize;

/// A case with its size: what a subject does in one turn.
pub trait Case: Copy + Debug + Serialize {
    /// The case's name in the result.
    fn name(self) -> &'static str;

    /// The case's size, if it has one.
    fn size(self) -> Option<u64>;

    /// Unit of the samples.
    fn unit(self) -> &'static str {
        Unit::Nanoseconds.as_str()
    }

    /// True if a larger sample is a worse one.
    fn less_is_better(self) -> bool {
        true
    }

    /// Other processes that keep a cpu busy while it is measured.
    fn busy(self) -> usize {
        0
    }

    /// True if the raw round trip is a row of this case, and not only its limit.
    fn shows_raw(self) -> bool {
        false
    }
}
