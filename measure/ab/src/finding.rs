//! What is found by one measure.

use serde::{Deserialize, Serialize};

use crate::against::Against;
use crate::measure::Measure;
use crate::verdict::Verdict;

/// Verdict of one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The measure.
    pub by: Measure,
    /// Judgement of the difference.
    pub verdict: Verdict,
    /// B over A.
    pub ratio: f64,
    /// Its interval, once there is one.
    pub interval: Option<[f64; 2]>,
    /// Pairs, or rounds of pairs, that it is of.
    pub pairs: usize,
    /// Pairs after which its verdict stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_after: Option<usize>,
    /// B now against a B that was kept, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
}

impl Finding {
    /// Verdict on B against A, or on B now `against` the B that was kept.
    pub(crate) fn said(&self, against: bool) -> Verdict {
        match against {
            true => self.against.map_or(Verdict::CannotSay, |against| against.verdict),
            false => self.verdict,
        }
    }
}
