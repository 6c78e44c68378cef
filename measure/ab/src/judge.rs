//! A verdict by each measure, and which of them is said first.
//!
//! Wall time is what a user feels, and what company adds to; processor time is hardly moved by
//! company, and says nothing of waiting. So each has a sequence of its own:
//!
//! ```text
//!  each round: least wall time of each side ──▶ wall          ┐ what is sure first
//!  each pair:  processor time               ──▶ cpu           ├ is said first
//!              instructions                 ──▶ instructions  ┘
//! ```
//!
//! Together they miss as rarely as one would. Wall time decides where it can. Processor time
//! decides in its place where B costs more of it, and where neither command waits by itself:
//! then how long they take, on a cpu of their own, is what they cost.

use kumiki_measure::stats::describe;

use crate::against::Against;
use crate::finding::Finding;
use crate::measure::Measure;
use crate::plan::Plan;
use crate::process::Sample;
use crate::sequence::{MISSES, Sequence};
use crate::verdict::{Clear, Verdict};

/// A command that leaves its cpu for no more than this share of its time does not wait: the start
/// and the end of a process are some of it.
const WAITS: f64 = 0.1;

/// A measure and what is known by it.
struct Scale {
    by: Measure,
    sequence: Sequence,
    kept: Option<Finding>,
    stood_after: Option<usize>,
}

/// All measures.
pub(crate) struct Judge {
    scales: Vec<Scale>,
    detect: f64,
    against: bool,
}

impl Judge {
    /// Judges as the plan asks; `instructions` says whether they are counted.
    pub(crate) fn new(plan: &Plan, instructions: bool) -> Self {
        let scale = |(by, misses)| Scale {
            by,
            sequence: Sequence::missing(misses),
            kept: kept(plan, by),
            stood_after: None,
        };
        let scales = measures(plan, instructions).into_iter().map(scale).collect();
        Judge { scales, detect: plan.detect, against: plan.against.is_some() }
    }

    /// Adds a pair, of which each but wall time is judged.
    pub(crate) fn pair(&mut self, [a, b]: &[Sample; 2]) {
        for scale in self.scales.iter_mut().filter(|scale| !in_rounds(scale.by)) {
            if let Some((a, b)) = scale.by.of(a).zip(scale.by.of(b)) {
                scale.sequence.push((b / a).ln());
            }
        }
    }

    /// Adds a round of pairs, of which each side's least time is judged: others only add to it.
    pub(crate) fn round<'a>(&mut self, pairs: impl Iterator<Item = &'a [Sample; 2]> + Clone) {
        for scale in self.scales.iter_mut().filter(|scale| in_rounds(scale.by)) {
            let least = |at: usize| {
                let all = pairs.clone().filter_map(|pair| scale.by.of(&pair[at]));
                all.reduce(f64::min)
            };
            if let Some((a, b)) = least(0).zip(least(1)) {
                scale.sequence.push((b / a).ln());
            }
        }
    }

    /// Notes which verdicts stand after so many pairs.
    pub(crate) fn look(&mut self, pairs: usize) {
        let (detect, against) = (self.detect, self.against);
        for scale in &mut self.scales {
            let stands = scale.finding(detect).said(against) != Verdict::CannotSay;
            scale.stood_after = if stands { scale.stood_after.or(Some(pairs)) } else { None };
        }
    }

    /// Findings of each measure.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let known = self.scales.iter().filter(|scale| !scale.sequence.is_empty());
        known.map(|scale| scale.finding(self.detect)).collect()
    }

    /// Rounds that the first measure knows.
    pub(crate) fn rounds(&self) -> usize {
        self.scales.first().map_or(0, |scale| scale.sequence.len())
    }

    /// Pairs that would clear up what one measure cannot say.
    pub(crate) fn clear(&self, by: Measure, pairs: usize, seconds: f64) -> Option<Clear> {
        let scale = self.scales.iter().find(|scale| scale.by == by)?;
        let finding = scale.finding(self.detect);
        let (middle, interval) = match (finding.against, finding.interval) {
            (Some(against), _) => (against.ratio, Some(against.interval)),
            (None, interval) => (finding.ratio, interval),
        };
        let ends = interval.map_or([f64::NEG_INFINITY, f64::INFINITY], |ends| ends.map(f64::ln));
        Some(Clear::up(middle.ln(), ends, self.detect, pairs, seconds))
    }
}

/// Measures that judge, and the share of comparisons in which each may miss. Against a B that was kept
/// those by which it is known: of another one no number of pairs would tell.
pub(crate) fn measures(plan: &Plan, instructions: bool) -> Vec<(Measure, f64)> {
    let mut all = asked(plan, instructions);
    if plan.against.is_some() {
        all.retain(|(by, _)| kept(plan, *by).is_some());
        let sum: f64 = all.iter().map(|(_, misses)| misses).sum();
        all.iter_mut().for_each(|(_, misses)| *misses *= plan.misses / sum);
    }
    all
}

/// Measures that the plan asks for, whatever was kept.
pub(crate) fn asked(plan: &Plan, instructions: bool) -> Vec<(Measure, f64)> {
    let mut all = match plan.by {
        Some(by) => vec![(by, MISSES)],
        None => Measure::all(plan.a.measures || plan.b.measures, instructions),
    };
    all.iter_mut().for_each(|(_, misses)| *misses *= plan.misses / MISSES);
    all
}

/// Finding on the B that was kept, where it is known by this measure.
fn kept(plan: &Plan, by: Measure) -> Option<Finding> {
    let known = |kept: &&Finding| {
        let ends = kept.interval.into_iter().flatten().chain([kept.ratio]);
        kept.by == by && kept.interval.is_some() && { ends }.all(|end| end.is_finite() && end > 0.0)
    };
    plan.against.iter().flatten().find(known).copied()
}

/// True for what others add to, of which the least of some runs is steadier than each.
fn in_rounds(by: Measure) -> bool {
    matches!(by, Measure::Wall | Measure::Own)
}

impl Scale {
    fn finding(&self, detect: f64) -> Finding {
        let (estimate, ends) = (self.sequence.estimate(), self.sequence.interval());
        let interval = ends[1].is_finite().then(|| ends.map(f64::exp));
        let ratio = estimate.exp();
        let against = self
            .kept
            .and_then(|kept| Against::of([kept.ratio, ratio], [kept.interval?, interval?], detect));
        Finding {
            by: self.by,
            verdict: Verdict::of(estimate, ends, detect),
            ratio,
            interval,
            pairs: self.sequence.len(),
            stood_after: self.stood_after,
            against,
        }
    }
}

/// The finding that answers, of all that there are: the one whose verdict is the comparison's.
/// `waits` says that a command waits by itself, so that its processor time is not its time.
/// `against` that what answers is B now against B then.
pub(crate) fn answer(findings: &[Finding], waits: bool, against: bool) -> Option<Finding> {
    let by = |measure| findings.iter().find(|finding| finding.by == measure).copied();
    let (Some(wall), Some(cpu)) = (by(Measure::Wall), by(Measure::Cpu)) else {
        return findings.first().copied();
    };
    Some(match (wall.said(against), cpu.said(against)) {
        (Verdict::Slower | Verdict::Faster, _) => wall,
        (_, Verdict::Slower) => cpu,
        (Verdict::CannotSay, said) if said != Verdict::CannotSay && !waits => cpu,
        _ => wall,
    })
}

/// True if no more pairs are needed.
pub(crate) fn is_settled(findings: &[Finding], waits: bool, against: bool) -> bool {
    let stands = |finding: &Finding| finding.said(against) != Verdict::CannotSay;
    answer(findings, waits, against).is_some_and(|answer| {
        // What costs more may still take less time, where it waits or runs on several cpus.
        let alone = answer.by == Measure::Cpu && findings.len() > 1 && waits;
        let timed =
            || findings.iter().any(|finding| finding.by == Measure::Wall && stands(finding));
        stands(&answer) && (!alone || timed())
    })
}

/// True if a command waits by itself, or works on several cpus: then the time that it takes is not
/// what it costs, and one may differ where the other does not.
pub(crate) fn waits(pairs: &[&[Sample; 2]], detect: f64) -> bool {
    // Time off its cpu, as a share of its time, without that for which others had the cpu.
    let off = |sample: &Sample| {
        let [its, own] = sample.waited_ns?;
        let alone = (sample.wall_ns - its).max(1.0);
        let off = alone - sample.cpu_ns();
        // Who waited for it may have been late to see its end, or have waited as it ran.
        Some(if off > 0.0 { (off - own).max(0.0) } else { off } / alone)
    };
    let middle = |values: Vec<f64>| describe::median_of(values);
    let sides: Vec<[f64; 2]> = pairs.iter().filter_map(|[a, b]| Some([off(a)?, off(b)?])).collect();
    if 2 * sides.len() <= pairs.len() {
        return true;
    }
    let side = |at: usize| middle(sides.iter().map(|off| off[at]).collect());
    let apart = middle(sides.iter().map(|[a, b]| b - a).collect());
    let usual = |at: usize| side(at).abs() <= WAITS;
    !(usual(0) && usual(1) && apart.abs() <= detect / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::Side;

    fn finding(by: Measure, verdict: Verdict) -> Finding {
        Finding {
            by,
            verdict,
            ratio: 1.0,
            interval: None,
            pairs: 1,
            stood_after: None,
            against: None,
        }
    }

    #[test]
    fn what_is_sure_answers() {
        use Verdict::{CannotSay, Faster, NotSlower, Same, Slower};
        for (wall, cpu, waits, by, settled) in [
            (Slower, Same, false, Measure::Wall, true),
            // It takes longer and costs less.
            (Slower, Faster, true, Measure::Wall, true),
            // It costs more on more cpus, and takes less time.
            (Faster, Slower, true, Measure::Wall, true),
            // It costs more where nobody waits for it.
            (Same, Slower, true, Measure::Cpu, true),
            (CannotSay, Slower, false, Measure::Cpu, true),
            // It might take less time all the same: wall time is waited for.
            (CannotSay, Slower, true, Measure::Cpu, false),
            (CannotSay, Same, false, Measure::Cpu, true),
            (CannotSay, NotSlower, false, Measure::Cpu, true),
            // Of what waits processor time says nothing.
            (CannotSay, Same, true, Measure::Wall, false),
            (CannotSay, Faster, true, Measure::Wall, false),
            (Same, CannotSay, true, Measure::Wall, true),
            (CannotSay, CannotSay, false, Measure::Wall, false),
        ] {
            let findings = [finding(Measure::Wall, wall), finding(Measure::Cpu, cpu)];
            let answer = answer(&findings, waits, false).unwrap();
            let row = format!("{wall:?} {cpu:?} {waits}");
            assert_eq!(answer.by, by, "{row}");
            assert_eq!(is_settled(&findings, waits, false), settled, "{row}");
            // Nothing was kept: nothing is known against it.
            assert!(!is_settled(&findings, waits, true), "{row}");
        }
        let one = [finding(Measure::Cpu, Same)];
        assert!(is_settled(&one, true, false), "asked for by --by");
        assert_eq!(answer(&[], false, false), None);
    }

    #[test]
    fn against_what_was_kept_only_its_measures_judge() {
        let known = |by, interval| Finding { interval, ..finding(by, Verdict::Slower) };
        let ends = Some([0.9, 1.1]);
        let of = |by: Option<Measure>, kept: &[Finding]| {
            let against = Some(kept.to_vec());
            let plan = Plan { by, against, ..Plan::new(Side::new(["a"]), Side::new(["b"])) };
            measures(&plan, true)
        };
        let both = [known(Measure::Wall, ends), known(Measure::Cpu, ends)];
        let [(wall, some), (cpu, more)] = of(None, &both)[..] else { panic!("two are known") };
        assert_eq!((wall, cpu), (Measure::Wall, Measure::Cpu));
        assert!((some + more - MISSES).abs() < 1e-12, "together they may miss as one");
        assert_eq!(of(None, &both[1..]), [(Measure::Cpu, MISSES)]);
        assert_eq!(of(Some(Measure::Wall), &both[1..]), []);
        let one_of_ten = Plan { misses: 0.005, ..Plan::new(Side::new(["a"]), Side::new(["b"])) };
        let sum: f64 = measures(&one_of_ten, true).iter().map(|(_, misses)| misses).sum();
        assert!((sum - 0.005).abs() < 1e-12, "{sum}");
        for unknown in [None, Some([f64::NAN; 2]), Some([0.0, 1.0])] {
            assert_eq!(of(None, &[known(Measure::Cpu, unknown)]), [], "{unknown:?}");
        }
    }

    #[test]
    fn who_sleeps_or_has_several_cpus_waits() {
        let sample = |wall: f64, cpu: f64, waited: f64| Sample {
            wall_ns: wall,
            user_ns: cpu,
            waited_ns: Some([waited, 0.0]),
            ..Sample::none()
        };
        let of = |pair: [Sample; 2]| waits(&[&pair, &pair], 0.02);
        assert!(!of([sample(100.0, 97.0, 0.0), sample(104.0, 101.0, 0.0)]));
        // Beside others: most of its time it was ready and had no cpu.
        assert!(!of([sample(400.0, 97.0, 300.0), sample(900.0, 101.0, 796.0)]));
        // The one that waits for it was late, or was ready as the command ran.
        for own in [150.0, 90.0] {
            let late = |sample: Sample| Sample { waited_ns: Some([300.0, own]), ..sample };
            let pair = [sample(400.0, 97.0, 0.0), sample(549.0, 97.0, 0.0)].map(late);
            assert_eq!(of(pair), own < 150.0, "{own}");
        }
        assert!(of([sample(100.0, 2.0, 0.0), sample(100.0, 2.0, 0.0)]), "sleeps");
        assert!(of([sample(100.0, 190.0, 0.0), sample(100.0, 97.0, 0.0)]), "two threads");
        assert!(of([sample(100.0, 99.0, 0.0), sample(100.0, 93.0, 0.0)]), "B waits for a file");
        let unknown = [sample(100.0, 97.0, 0.0), sample(100.0, 97.0, 0.0)]
            .map(|sample| Sample { waited_ns: None, ..sample });
        assert!(of(unknown));
    }

    /// Pairs of a loop beside heavy company, as it was seen: ln(B ÷ A) spreads by 0.33 by the
    /// clock and by 0.015 by processor time.
    fn beside(rng: &mut fastrand::Rng, ratio: f64) -> [Sample; 2] {
        let mut run = |cost: f64| {
            let cpu = 2e7 * cost * (0.0106 * normal(rng)).exp();
            let queue = cpu * (0.5 + 2.0 * rng.f64());
            Sample {
                wall_ns: cpu * 1.03 + queue,
                user_ns: cpu,
                waited_ns: Some([queue, 0.0]),
                ..Sample::none()
            }
        };
        [run(1.0), run(ratio)]
    }

    fn normal(rng: &mut fastrand::Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.f64()).cos()
    }

    /// Verdict of the measure that answers once it is settled, or after so many pairs.
    fn settle(rng: &mut fastrand::Rng, ratio: f64, most: usize) -> (Finding, usize) {
        let plan = Plan::new(Side::new(["a"]), Side::new(["b"]));
        let mut judge = Judge::new(&plan, false);
        for pairs in 1..=most {
            let pair = beside(rng, ratio);
            judge.pair(&pair);
            judge.round([pair].iter());
            if pairs % 4 != 0 {
                continue;
            }
            let findings = judge.findings();
            if is_settled(&findings, false, false) || pairs == most {
                return (answer(&findings, false, false).unwrap(), pairs);
            }
        }
        unreachable!("there is a last pair")
    }

    #[test]
    fn beside_heavy_company_equal_commands_are_not_apart_and_three_percent_are_found() {
        const TRIALS: usize = 60;
        let mut rng = fastrand::Rng::with_seed(12);
        let same: Vec<_> = (0..TRIALS).map(|_| settle(&mut rng, 1.0, 60)).collect();
        let wrong = same
            .iter()
            .filter(|(found, _)| matches!(found.verdict, Verdict::Slower | Verdict::Faster));
        let wrong = wrong.count();
        assert!(wrong <= 3, "{wrong} of {TRIALS}");
        let slower: Vec<_> = (0..TRIALS).map(|_| settle(&mut rng, 1.03, 100)).collect();
        let found = slower.iter().filter(|(found, _)| found.verdict == Verdict::Slower).count();
        assert!(found >= 57, "{found} of {TRIALS}");
        let by_cpu = slower.iter().filter(|(found, _)| found.by == Measure::Cpu).count();
        assert!(by_cpu >= 57, "{by_cpu}: by the clock it takes hundreds of pairs");
    }
}
