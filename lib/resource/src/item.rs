//! Places of a batch's operations, in one list that goes to their owner and comes back.

use crate::error::{Error, Outcome, Result};
use crate::id::Id;

/// An operation of a batch: asked for, and then its result in the same place, so that one line of memory
/// takes both their ways.
pub(crate) enum Item<I, R> {
    Asked(Id, I),
    /// The item runs, or has panicked just now.
    Taken,
    Given(Outcome<R>),
}

impl<I, R> Item<I, R> {
    /// Its result, once it has run.
    #[inline(always)]
    pub(crate) fn result(self) -> Result<R> {
        match self {
            Item::Given(outcome) => outcome.map_err(Error::from),
            Item::Asked(..) | Item::Taken => unreachable!("each has run"),
        }
    }

    /// Takes an operation out that is to run.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<(Id, I)> {
        match std::mem::replace(self, Item::Taken) {
            Item::Asked(id, input) => Some((id, input)),
            _ => None,
        }
    }
}
