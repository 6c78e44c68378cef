//! On which cpu the other end of a pair runs.

use kumiki_measure::case::{Case, Place};
use kumiki_measure::error::{Error, Result};

/// The parameter `cpu` of every case that has two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherEnd {
    /// The measuring cpu: the two take turns.
    Same,
    /// The cpu of [`Place::partner`].
    Other,
}

impl OtherEnd {
    /// Both, in the order of the catalogue.
    pub(super) const BOTH: [Self; 2] = [Self::Same, Self::Other];

    /// The cpu.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a second one is needed and there is none.
    pub(super) fn cpu(self, place: &Place) -> Result<usize> {
        match self {
            Self::Same => Ok(place.cpu),
            Self::Other => place.partner.ok_or_else(|| {
                Error::unsupported(
                    "a second cpu",
                    "allow at least two cpus (taskset, cgroup cpuset)",
                )
            }),
        }
    }

    /// Writes it into a case.
    pub(super) fn mark(self, case: Case) -> Case {
        match self {
            Self::Same => case.with("cpu", "same"),
            Self::Other => case.with("cpu", "other").two_cpus(),
        }
    }
}
