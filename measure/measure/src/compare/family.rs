//! Rows that differ in their sizes only, pooled.

use indexmap::IndexMap;
use serde::Serialize;

use super::between::{Between, Moved};
use super::doubt::{Cause, Doubt};
use super::shift::Shift;
use super::{Judged, Limits, Verdict, judge};
use crate::moves::{self, Span};
use crate::schema::{Params, Row, Unit, Value};
use crate::stats::quiet::LEAST;

/// A case with all of its sizes and counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Family {
    /// Case.
    pub case: String,
    /// Parameters that are neither a size nor a count: what its rows have in common.
    pub params: Params,
    /// Unit.
    pub unit: Unit,
    /// Rows of both sides.
    pub rows: usize,
    /// The middle of the rows' B over A.
    pub ratio: f64,
    /// Its 95 % interval, which also holds what changes from run to run.
    pub ci: [f64; 2],
    /// Share within which the two sides are the same, where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_within: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason for which it is unclear, if it is, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
}

/// Rows of A and B that are one family.
pub(super) struct Pooled<'a> {
    pub(super) rows: Vec<(&'a Row, &'a Row)>,
    pub(super) moved: Option<Moved>,
    /// Move by the visits alone that nothing disturbed, where a row was disturbed.
    pub(super) quiet: Option<Option<Moved>>,
}

/// The parameters by which families are distinguished.
pub(super) fn common(params: &Params) -> Params {
    let words = params.iter().filter(|(_, value)| !matches!(value, Value::Number(_)));
    words.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Puts rows into families, in the order of A.
pub(super) fn families<'a>(rows: &[(&'a Row, &'a Row)]) -> Vec<Vec<(&'a Row, &'a Row)>> {
    let mut all: IndexMap<_, Vec<(&Row, &Row)>> = IndexMap::new();
    for &(a, b) in rows {
        all.entry((&a.case, a.unit, common(&a.params))).or_default().push((a, b));
    }
    all.into_values().collect()
}

/// Error that the layout of the code alone gives a row, in ln.
fn by_layout(row: &Row) -> f64 {
    match row.unit {
        Unit::Nanoseconds if row.median > 0.0 => moves::of_layout(row.median),
        _ => 0.0,
    }
}

impl<'a> Pooled<'a> {
    pub(super) fn of(
        rows: Vec<(&'a Row, &'a Row)>,
        shift: impl Fn(&Row, &Row, bool) -> Option<Shift>,
    ) -> Self {
        let disturbed = rows.iter().any(|(a, b)| a.disturbed || b.disturbed);
        let moved = |undisturbed: bool| {
            let near = rows.iter().filter(|(a, b)| super::moved(a, b).is_none());
            let shifts: Vec<Shift> = near.filter_map(|(a, b)| shift(a, b, undisturbed)).collect();
            let first = rows.first()?.0;
            let cpus = rows.iter().map(|(a, _)| a.cpus.len()).max().unwrap_or(1);
            let layout = rows.iter().map(|(a, _)| by_layout(a)).fold(0.0, f64::max);
            let known = moves::of_a_pair(&first.case, Span::of(cpus)).hypot(layout);
            let visits = rows.iter().map(|(a, b)| super::visits(a, b)).max().unwrap_or(0);
            Some(Moved { shift: Shift::pooled(&shifts)?, known, crosses: cpus > 1, visits })
        };
        let (all, quiet) = (moved(false), disturbed.then(|| moved(true)));
        Pooled { moved: all, quiet, rows }
    }

    pub(super) fn judged(&self, between: &Between, limits: &Limits) -> Family {
        let (first, _) = self.rows[0];
        let verdict = self.moved.map(|moved| judge(&moved, self.quiet, between, limits));
        let less = first.unit.less_is_better();
        let Judged { worse, ci, verdict, same_within } = verdict.unwrap_or(Judged {
            worse: f64::NAN,
            ci: [f64::NAN; 2],
            verdict: Verdict::Unclear,
            same_within: None,
        });
        let doubt = (verdict == Verdict::Unclear).then(|| self.doubt(between, limits, ci));
        let [low, high] = ci.map(f64::exp);
        Family {
            case: first.case.clone(),
            params: common(&first.params),
            unit: first.unit,
            rows: self.rows.len(),
            ratio: if less { worse.exp() } else { (-worse).exp() },
            ci: if less { [low, high] } else { [1.0 / high, 1.0 / low] },
            same_within,
            verdict,
            doubt,
        }
    }

    fn doubt(&self, between: &Between, limits: &Limits, ci: [f64; 2]) -> Doubt {
        let same_at = super::same_at(ci);
        let of = |cause: Cause, why: String, times_visits, same_at| Doubt {
            cause,
            why,
            remedy: cause.remedy(),
            times_visits,
            same_at,
        };
        let Some(moved) = self.moved else {
            let apart = "the cpus were not as far apart in any of its rows".to_owned();
            return of(Cause::Moved, apart, None, None);
        };
        if moved.visits < LEAST || moved.shift.within.variance.is_nan() {
            let why = format!("a side has fewer than {LEAST} visits");
            return of(Cause::FewVisits, why, None, None);
        }
        let error = between.error(&moved);
        let least = super::percent_seen(between.critical(&moved) * error);
        if self.quiet.is_some()
            && !limits.holds(self.quiet.flatten(), between)
            && limits.beyond(moved.shift.worse.abs())
        {
            let why = "other work disturbed it, and the quiet visits do not tell".to_owned();
            return of(Cause::Disturbed, why, None, same_at);
        }
        if moved.shift.within.variance < error.powi(2) / 2.0 {
            let why = format!("by itself it moves from run to run: two runs show {least}");
            return of(Cause::Runs, why, None, same_at);
        }
        let why = format!("its visits spread: these show {least}");
        let times = super::times_visits(moved.shift.within.error(), error);
        of(Cause::Wide, why, times, same_at)
    }
}
