//! How many times as long as another a subject took, each time beside the other: the machine's
//! clock moves.

use kumiki_measure::stats::describe;

use super::super::Row;
use super::super::judge::digits;

/// Ratios of turns or instances.
pub(super) struct Ratios(Vec<f64>);

impl Ratios {
    /// To a plain way in the subject's process, turn by turn: plain calls, too, differ
    /// by a third between processes on some machines. `None` if there was none.
    pub(super) fn of_plain(row: &Row) -> Option<Self> {
        (!row.of_plain.is_empty()).then(|| Ratios(row.of_plain.clone()))
    }

    /// To another subject, instance by instance.
    pub(super) fn of(row: &Row, other: &Row) -> Self {
        let pairs = row.instances.iter().zip(&other.instances);
        Ratios(match row.instances.len() == other.instances.len() {
            true if !row.instances.is_empty() => pairs.map(|(a, b)| a / b).collect(),
            _ => vec![row.median / other.median],
        })
    }

    /// To the raw reference and `more` nanoseconds, instance by instance: a line's way takes
    /// three times as long when the host has moved a cpu.
    pub(super) fn of_limit(row: &Row, more: f64) -> Option<Self> {
        let pairs = row.instances.iter().zip(&row.limits);
        let ratios: Vec<f64> = pairs.map(|(instance, limit)| instance / (limit + more)).collect();
        (!ratios.is_empty()).then_some(Ratios(ratios))
    }

    pub(super) fn median(&self) -> f64 {
        describe::median_of(self.0.iter().copied())
    }

    /// One of them: the upper one of two in the middle.
    pub(super) fn middle(&self) -> f64 {
        let ratios = describe::sorted(self.0.clone());
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Ratio that so many of twenty keep.
    pub(super) fn of_twenty(&self, many: usize) -> Option<f64> {
        let ratios = describe::sorted(self.0.clone());
        let last = (ratios.len() * many).div_ceil(20).checked_sub(1)?;
        ratios.get(last).copied()
    }

    /// From the best to the worst: a slow mode shows here.
    pub(super) fn range(&self) -> String {
        let (best, worst) = self.0.iter().fold((f64::INFINITY, 0.0_f64), |(best, worst), ratio| {
            (best.min(*ratio), worst.max(*ratio))
        });
        match self.0.len() {
            1 => String::new(),
            _ => format!(", turns {} to {}", digits(best), digits(worst)),
        }
    }
}
