//! Stands for io_uring in a build without it.

use kumiki_calls::Request;

use crate::lack::Lack;

/// Ring of a machine that has none.
#[derive(Debug)]
pub(crate) enum Ring {}

impl Ring {
    pub(crate) fn new(_slots: usize) -> Result<Self, Lack> {
        Err(Lack::new("this program was built without it", "build it with the feature `io-uring`"))
    }

    pub(crate) fn has(&self, _sysnum: u16) -> bool {
        match *self {}
    }

    pub(crate) fn is_of_this_thread(&self) -> bool {
        match *self {}
    }

    /// # Safety
    /// There is nothing to call it on.
    pub(crate) unsafe fn run(&mut self, _requests: &[Request], _results: &mut [i64]) -> bool {
        match *self {}
    }
}
