//! Processors without such instructions. aarch64 has WFE, but no use for it here
//! (docs/design/wait.md, "Other processors").

use std::convert::Infallible;

use super::Monitor;
use crate::machine::Machine;

/// An instruction that this processor lacks: no value of this type exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lacking(Infallible);

pub(crate) type Umwait = Lacking;
pub(crate) type Mwaitx = Lacking;
pub(crate) type Mwait = Lacking;

impl Lacking {
    pub(crate) fn of(_: Machine) -> Option<Self> {
        None
    }
}

impl Monitor for Lacking {
    type Armed = ();

    fn arm(&self, _: *const u8) {
        match self.0 {}
    }

    fn rest(&self, (): (), _: u32) {
        match self.0 {}
    }
}
