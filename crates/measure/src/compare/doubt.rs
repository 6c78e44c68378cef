//! Why a compared row is unclear, and what would clear it.

use serde::Serialize;

use super::{SIGNIFICANT, moved};
use crate::schema::Row;
use crate::stats::mann_whitney;

/// A difference within this share of a limit is the limit itself, whatever the
/// number of visits.
const NEAR: f64 = 0.25;

/// What kept a row from a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The cpus used were not as far apart on both sides.
    Moved,
    /// So few visits that no difference could have been shown.
    FewVisits,
    /// Other work struck the visits, whose interval is too wide.
    Disturbed,
    /// The core's clock wandered further than the difference that matters.
    Clock,
    /// The medians are apart, the visits' ranks are not.
    Overlap,
    /// The visits spread too far for the threshold.
    Wide,
    /// The difference is about as large as the threshold.
    Near,
}

impl Cause {
    /// What would clear rows that are unclear for this cause.
    pub fn remedy(self) -> &'static str {
        match self {
            Cause::Moved => {
                "measure the new side again until its round trip is like the old one's, or both \
                 on the same --cpus"
            }
            Cause::FewVisits => "measure the side with fewer visits longer: --time, or no --quick",
            Cause::Disturbed => "stop the other work and measure the disturbed side again",
            Cause::Clock => {
                "hold the clock (governor `performance`, boost off) and measure both again"
            }
            Cause::Overlap | Cause::Wide => "measure both longer: --time, or --full",
            Cause::Near => "choose another --threshold: more visits will hardly tell",
        }
    }
}

/// Why a row is unclear.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Doubt {
    /// In kind.
    pub cause: Cause,
    /// In words, with the row's figures.
    pub why: String,
    /// What would clear it.
    pub remedy: &'static str,
    /// About how many times as many visits would tell, where visits would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_visits: Option<f64>,
    /// The least threshold at which the row is the same, as a share; `None`
    /// where no threshold makes it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_at: Option<f64>,
}

/// What is known of a row that has no verdict.
pub(super) struct Unclear<'a> {
    pub(super) a: &'a Row,
    pub(super) b: &'a Row,
    /// How many times worse B is: the estimate, and its interval.
    pub(super) worse: f64,
    pub(super) ci: [f64; 2],
    /// The interval without what the core's clock added.
    pub(super) steady: [f64; 2],
    pub(super) p: f64,
    /// 1 plus the threshold.
    pub(super) limit: f64,
}

impl Unclear<'_> {
    pub(super) fn doubt(&self) -> Doubt {
        let (cause, why) = self.cause();
        let waits = matches!(cause, Cause::Wide | Cause::Disturbed) && !self.apart(self.ci);
        let same_at = self.ci[1].max(1.0 / self.ci[0]) - 1.0;
        let judged = !matches!(cause, Cause::Moved | Cause::FewVisits);
        Doubt {
            cause,
            why,
            remedy: cause.remedy(),
            times_visits: waits.then(|| self.times_visits()),
            same_at: (judged && same_at.is_finite()).then_some(same_at),
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
        let side = self.disturbed();
        if let (true, Some(side)) = (self.apart(self.ci), side) {
            let text = format!("other work disturbed {side}, and the quiet visits do not tell");
            return (Cause::Disturbed, text);
        }
        if self.apart(self.ci) {
            return (Cause::Overlap, format!("the visits of A and B overlap: p = {:.2}", self.p));
        }
        if !self.crosses(self.steady) {
            let percent = 100.0 * self.a.wander.max(self.b.wander);
            return (Cause::Clock, format!("the core's clock wandered by {percent:.0} %"));
        }
        let [low, high] = self.ci.map(|end| 100.0 * (end - 1.0));
        let reaches = format!("the interval reaches from {low:+.1} to {high:+.1} %");
        match side {
            Some(side) => (Cause::Disturbed, format!("other work disturbed {side}: {reaches}")),
            None if self.near() => (Cause::Near, reaches),
            None => (Cause::Wide, reaches),
        }
    }

    /// Which sides other work disturbed.
    fn disturbed(&self) -> Option<&'static str> {
        match (self.a.disturbed, self.b.disturbed) {
            (true, true) => Some("A and B"),
            (true, false) => Some("A"),
            (false, true) => Some("B"),
            (false, false) => None,
        }
    }

    /// Whether the interval lies wholly beyond a limit.
    fn apart(&self, [least, most]: [f64; 2]) -> bool {
        least > self.limit || most < 1.0 / self.limit
    }

    /// Whether the interval reaches over a limit.
    fn crosses(&self, ci: [f64; 2]) -> bool {
        let within = ci[0] >= 1.0 / self.limit && ci[1] <= self.limit;
        !within && !self.apart(ci)
    }

    /// Whether the estimate lies at a limit.
    fn near(&self) -> bool {
        let (worse, limit) = (self.worse.ln().abs(), self.limit.ln());
        (worse - limit).abs() < NEAR * limit
    }

    /// How many times as many visits bring the end of the interval that is
    /// beyond a limit back to it: its length goes with the root of the visits.
    fn times_visits(&self) -> f64 {
        let worse = self.worse.ln();
        let beyond = |limit: f64, end: f64| {
            let (room, reach) = (limit.ln() - worse, end.ln() - worse);
            // On the same side of the estimate, and further away.
            let over = room.signum() == reach.signum() && reach.abs() > room.abs();
            if over { (reach / room).powi(2) } else { 1.0 }
        };
        let limits = [1.0 / self.limit, self.limit];
        limits.iter().flat_map(|&limit| self.ci.map(|end| beyond(limit, end))).fold(1.0, f64::max)
    }
}
