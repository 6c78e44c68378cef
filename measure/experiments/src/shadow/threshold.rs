//! Table 2: fork and join of nothing, one after the other, against the time
//! that a side spins before it sleeps: the helper alone, and, as the paper has it,
//! both sides.

use kumiki_measure::case::{Case, Level, Place};
use kumiki_measure::schema::Value;
use kumiki_shadow::Threshold;

use super::{Asleep, Helped, Hot, waiting};

const HELPER: &str = "fork and join of nothing in a row, run by the helper in any case, against \
                      the ticks that it spins before it sleeps; main spins";
const BOTH: &str = "fork and join of nothing in a row, run by the helper in any case, against the \
                    ticks that both sides spin before they sleep; with none the helper sleeps \
                    before each fork";

/// Ticks of one of the paper's looks: its 10⁹ last 4 to 6 s at 2.8 GHz, 11 to 17 ticks each.
pub(super) const LOOK: u64 = 14;

/// The paper's thresholds, which are looks there.
const TICKS: [u64; 5] = [0, 100, 10_000, 1_000_000, 100_000_000];
/// Thresholds of the paper's figure 8 that its table 2 lacks.
const MORE_TICKS: [u64; 2] = [100_000, 1_000_000_000];

/// The paper's thresholds as values of the parameter `threshold_ticks`.
pub(super) fn thresholds() -> impl Iterator<Item = (Value, Threshold)> {
    TICKS.into_iter().map(ticks).chain([infinite()])
}

/// Value of the parameter `threshold_ticks`.
pub(super) fn ticks(ticks: u64) -> (Value, Threshold) {
    (Value::from(ticks), Threshold::Ticks(ticks))
}

pub(super) fn infinite() -> (Value, Threshold) {
    ("infinite".into(), Threshold::Infinite)
}

pub(super) fn cases() -> Vec<Case> {
    let helper = |(value, threshold)| {
        let setup = move |place: &Place| {
            Ok(Hot(Helped::new(place, waiting(threshold))?, Helped::hand_over))
        };
        Case::new("shadow.threshold", HELPER, setup).with("threshold_ticks", value).two_cpus()
    };
    let mut cases: Vec<Case> = thresholds().map(helper).collect();
    let mut all = [TICKS.as_slice(), &MORE_TICKS].concat();
    all.sort_unstable();
    cases.extend(all.into_iter().map(ticks).chain([infinite()]).map(both));
    cases
}

fn both((value, threshold): (Value, Threshold)) -> Case {
    let case = match threshold {
        Threshold::Ticks(0) => Case::new("shadow.threshold_both", BOTH, Asleep::waiting),
        _ => Case::new("shadow.threshold_both", BOTH, move |place: &Place| {
            Ok(Hot(Helped::new(place, waiting(threshold))?, Helped::hand_over_waiting))
        }),
    };
    case.with("threshold_ticks", value).two_cpus().level(Level::Default)
}
