//! Why a compared row is unclear, and what would clear it.

use serde::Serialize;

use super::{SIGNIFICANT, moved, times_visits};
use crate::schema::Row;
use crate::stats::mann_whitney;
use crate::stats::quiet::LEAST;

/// A difference within this share of a limit is the limit itself, whatever the
/// number of visits.
const NEAR: f64 = 0.25;

/// Cause that kept a row from a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The cpus used were not as far apart on both sides.
    Moved,
    /// Too few visits: no difference could have been shown.
    FewVisits,
    /// Other work struck the visits, whose interval is too wide.
    Disturbed,
    /// Two runs of one machine differ by as much.
    Runs,
    /// The quiet costs are apart, the visits' ranks are not.
    Overlap,
    /// The visits spread too far for the threshold.
    Wide,
    /// The difference is about as large as the threshold.
    Near,
}

impl Cause {
    /// Remedy for rows that are unclear for this cause.
    pub fn remedy(self) -> &'static str {
        match self {
            Cause::Moved => {
                "measure the new side again until its round trip is like the old one's, or both \
                 on the same --cpu-list"
            }
            Cause::FewVisits => "measure the side with fewer visits longer: --time, or no --quick",
            Cause::Disturbed => "stop the other work and measure the disturbed side again",
            Cause::Runs => {
                "measure both again: a change stays, what moves whole runs does not; longer runs \
                 do not help"
            }
            Cause::Overlap | Cause::Wide => "measure both longer: --time, or --full",
            Cause::Near => "choose another --threshold: more visits will hardly tell",
        }
    }
}

/// Reason for which a row is unclear.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Doubt {
    /// Cause of the doubt.
    pub cause: Cause,
    /// Doubt in words, with the row's figures.
    pub why: String,
    /// Remedy that would clear it.
    pub remedy: &'static str,
    /// About how many times as many visits would tell, where visits would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_visits: Option<f64>,
    /// The least threshold at which the row is the same, as a share; `None`
    /// where no threshold makes it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_at: Option<f64>,
}

/// Row that has no verdict, in logarithms.
pub(super) struct Unclear<'a> {
    pub(super) a: &'a Row,
    pub(super) b: &'a Row,
    /// Factor by which B is worse: the estimate, and its interval.
    pub(super) worse: f64,
    pub(super) ci: [f64; 2],
    /// Standard error by the visits alone, and with what moves whole runs.
    pub(super) error: [f64; 2],
    /// Number of standard errors that is beyond doubt.
    pub(super) critical: f64,
    pub(super) p: f64,
    /// The threshold.
    pub(super) limit: f64,
}

impl Unclear<'_> {
    pub(super) fn doubt(&self) -> Doubt {
        let (cause, why) = self.cause();
        let judged = !matches!(cause, Cause::Moved | Cause::FewVisits);
        let waits = matches!(cause, Cause::Wide | Cause::Disturbed);
        Doubt {
            cause,
            why,
            remedy: cause.remedy(),
            times_visits: if waits { times_visits(self.error[0], self.error[1]) } else { None },
            same_at: if judged { super::same_at(self.ci) } else { None },
        }
    }

    fn cause(&self) -> (Cause, String) {
        if let Some((from, to)) = moved(self.a, self.b) {
            let text = format!(
                "the raw round trip between the cpus was {from:.0} ns in A, {to:.0} ns in B"
            );
            return (Cause::Moved, text);
        }
        let (m, n) = (self.a.visits.len(), self.b.visits.len());
        let reachable = mann_whitney::smallest_p(m, n);
        if reachable >= SIGNIFICANT {
            return (
                Cause::FewVisits,
                format!("{m} and {n} visits cannot give p below {reachable:.2}"),
            );
        }
        if m.min(n) < LEAST {
            let why = format!("a side has fewer than {LEAST} visits");
            return (Cause::FewVisits, why);
        }
        let side = self.disturbed();
        if let (true, Some(side)) = (self.apart(), side) {
            let text = format!("other work disturbed {side}, and the quiet visits do not tell");
            return (Cause::Disturbed, text);
        }
        if self.apart() {
            return (Cause::Overlap, format!("the visits of A and B overlap: p = {:.2}", self.p));
        }
        let [low, high] = self.ci.map(|end| 100.0 * end.exp_m1());
        let reaches = match self.ci.iter().all(|end| end.is_finite()) {
            true => format!("the interval reaches from {low:+.1} to {high:+.1} %"),
            false => "the interval reaches beyond a hundredfold".to_owned(),
        };
        let by_runs = self.error[0].powi(2) < self.error[1].powi(2) / 2.0;
        match side {
            Some(side) if !by_runs => {
                (Cause::Disturbed, format!("other work disturbed {side}: {reaches}"))
            }
            _ if self.near() => (Cause::Near, reaches),
            _ if by_runs => (Cause::Runs, format!("it moves from run to run by itself: {reaches}")),
            _ => (Cause::Wide, reaches),
        }
    }

    /// Sides that other work disturbed.
    fn disturbed(&self) -> Option<&'static str> {
        match (self.a.disturbed, self.b.disturbed) {
            (true, true) => Some("A and B"),
            (true, false) => Some("A"),
            (false, true) => Some("B"),
            (false, false) => None,
        }
    }

    /// True if it lies beyond doubt beyond the threshold.
    fn apart(&self) -> bool {
        let worse = self.worse.abs();
        worse > self.critical * self.error[1] && worse >= self.limit
    }

    /// True if the estimate lies at a limit, and is sure enough that it is there.
    fn near(&self) -> bool {
        let off = (self.worse.abs() - self.limit).abs();
        off < NEAR * self.limit && self.error[1] < self.limit
    }
}
