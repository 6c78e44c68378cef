//! A call's throughput at each size: threads that are bound to a cpu each, and make it for a while.

use std::path::Path;
use std::time::Duration;

use kumiki_measure::error::{Error, Result};
use kumiki_measure::stats::describe::median_of;
use kumiki_measure::stats::scaling::{Law, fit};
use serde::Serialize;

use crate::calls::Call;
use crate::joint::Joint;
use crate::rate::rate;
use crate::{Effort, order};

/// Throughput of a call at so many cpus.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Number of cpus, each with a thread that makes the call.
    pub cpus: usize,
    /// Calls a second of all threads: the median of the rounds.
    pub a_second: f64,
    /// Throughput as a multiple of one cpu's.
    pub of_one: f64,
}

/// A call at all sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The call, or what threads do together.
    pub call: &'static str,
    /// Thing that its threads share.
    pub shares: &'static str,
    /// One cpu first, all of them last.
    pub points: Vec<Point>,
    /// σ and κ of the universal scalability law; `None` with fewer than four sizes.
    pub law: Option<[f64; 2]>,
    /// Cpus from which on more do less by that law; `None` if it has no such number.
    pub bends_at: Option<f64>,
    /// The smallest size that reaches 95 % of the best one: by so many a batch would be shared.
    pub best: usize,
}

/// A size need not do more than this part of the best one's to be as good.
const AS_GOOD: f64 = 0.95;

/// Measures a call at 1, 2, 4, … cpus of `cpus`, in turns.
pub(crate) fn curve(call: &Call, cpus: &[usize], folder: &Path, effort: Effort) -> Result<Curve> {
    let prepare = |number| (call.prepare)(folder, number);
    of_rates((call.name, call.shares), cpus, effort, |cpus, span| rate(cpus, span, prepare))
}

/// Measures what threads do together, in the same way.
pub(crate) fn joint(joint: &Joint, cpus: &[usize], effort: Effort) -> Result<Curve> {
    of_rates((joint.name, joint.shares), cpus, effort, joint.rate)
}

/// A curve of what `rate` measures on so many cpus.
fn of_rates(
    (name, shares): (&'static str, &'static str),
    cpus: &[usize],
    effort: Effort,
    rate: impl Fn(&[usize], Duration) -> std::io::Result<f64>,
) -> Result<Curve> {
    let sizes = order::sizes(cpus.len());
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    for round in 0..effort.rounds {
        for step in 0..sizes.len() {
            // Each size is first in some round.
            let at = (round + step) % sizes.len();
            let failed = |error| Error::os(format!("{name} by {} threads", sizes[at]), error);
            rates[at].push(rate(&cpus[..sizes[at]], effort.span).map_err(failed)?);
        }
    }
    let medians: Vec<f64> = rates.iter().map(|its| median_of(its.iter().copied())).collect();
    let one = medians.first().copied().unwrap_or(f64::NAN);
    let points: Vec<Point> = sizes
        .iter()
        .zip(&medians)
        .map(|(&cpus, &a_second)| Point { cpus, a_second, of_one: a_second / one })
        .collect();
    Ok(judged((name, shares), points))
}

/// Finds the law, the bend and the best size.
fn judged((call, shares): (&'static str, &'static str), points: Vec<Point>) -> Curve {
    let pairs: Vec<_> = points.iter().map(|point| (point.cpus as u64, point.a_second)).collect();
    let law = fit(&pairs);
    let most = points.iter().map(|point| point.of_one).fold(0.0, f64::max);
    let best = points.iter().find(|point| point.of_one >= AS_GOOD * most).map_or(1, |it| it.cpus);
    Curve {
        call,
        shares,
        points,
        law: law.map(|Law { contention, coherence }| [contention, coherence]),
        bends_at: law.and_then(Law::bend),
        best,
    }
}

#[cfg(test)]
mod tests {
    use kumiki_sys::affinity;

    use super::*;
    use crate::calls::CALLS;

    const CALL: (&str, &str) = ("a call", "nothing");

    fn points(of_one: &[(usize, f64)]) -> Vec<Point> {
        of_one
            .iter()
            .map(|&(cpus, of_one)| Point { cpus, a_second: 1e6 * of_one, of_one })
            .collect()
    }

    #[test]
    fn the_fewest_that_do_as_much_are_the_best() {
        let flat = judged(CALL, points(&[(1, 1.0), (2, 1.9), (4, 3.9), (8, 4.0)]));
        assert_eq!(flat.best, 4);
        let worse = judged(CALL, points(&[(1, 1.0), (2, 0.8), (4, 0.5), (8, 0.4)]));
        assert_eq!((worse.best, worse.bends_at.map(|at| at < 2.0)), (1, Some(true)));
        let all = judged(CALL, points(&[(1, 1.0), (2, 2.0), (4, 4.0), (8, 8.0)]));
        assert_eq!((all.best, all.bends_at), (8, None));
    }

    #[test]
    fn a_curve_has_each_size() {
        let folder = tempfile::tempdir().unwrap();
        let cpus: Vec<_> = affinity::current().unwrap().iter().collect();
        let effort = Effort { span: Duration::from_millis(5), rounds: 2 };
        for call in [&CALLS[0], &CALLS[4]] {
            let curve = curve(call, &cpus, folder.path(), effort).unwrap();
            assert_eq!(curve.points.last().unwrap().cpus, cpus.len());
            assert!(curve.points.iter().all(|point| point.a_second > 100.0), "{curve:?}");
        }
    }
}
