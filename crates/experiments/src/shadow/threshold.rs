//! Table 2: fork and join of nothing, one after the other, against the time
//! that both sides spin before they sleep.

use kumiki_measure::case::{Case, Place};
use kumiki_measure::schema::Value;
use kumiki_shadow::Threshold;

use super::{Helped, Hot, waiting};

const ABOUT: &str = "fork and join of nothing in a row, run by the helper in any case, against \
                     the ticks that it spins before it sleeps";

/// The paper's thresholds.
const TICKS: [u64; 5] = [0, 100, 10_000, 1_000_000, 100_000_000];

/// The paper's thresholds as values of the parameter `threshold_ticks`.
pub(super) fn thresholds() -> impl Iterator<Item = (Value, Threshold)> {
    let ticks = TICKS.iter().map(|&ticks| (Value::from(ticks), Threshold::Ticks(ticks)));
    ticks.chain([(Value::from("infinite"), Threshold::Infinite)])
}

pub(super) fn cases() -> Vec<Case> {
    let case = |(value, threshold)| {
        let setup = move |place: &Place| {
            Ok(Hot(Helped::new(place, waiting(threshold))?, Helped::hand_over))
        };
        Case::new("shadow.threshold", ABOUT, setup).with("threshold_ticks", value).two_cpus()
    };
    thresholds().map(case).collect()
}
