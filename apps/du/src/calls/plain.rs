//! The calling thread makes one call after the other.

use kumiki_parasc::Operation;

use super::Calls;

/// No other thread.
pub(crate) struct Plain;

impl Calls for Plain {
    fn make<O: Operation>(&mut self, batch: &mut [O], meanwhile: impl FnOnce()) -> Vec<O::Output> {
        meanwhile();
        batch.iter_mut().map(Operation::call).collect()
    }
}
