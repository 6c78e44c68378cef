//! Where a series changed its level, and stayed.
//!
//! Nights are no independent draws: what moves a machine for days moves neighbouring nights alike,
//! and such a drift has stretches that look like levels. So a cut is held against drifts, not
//! against orders:
//!
//! ```text
//!  jump = |median after − median before| ÷ usual step from night to night
//!  p    = share of drifting series of as many nights whose largest jump is as large
//! ```
//!
//! The drifts are drawn: each night keeps 0.8 of the one before, and what comes new is of Student's
//! t with three degrees of freedom, so that single nights are wild. Less drift than that makes
//! smaller jumps, so that a cut is then rarer by chance than is said. Drawing as many as are needed
//! for the level asked makes the test exact for that drift (Barnard, 1963; Hope, 1968). Each side
//! of a cut is cut again. The walk through cuts is that of Matteson and James (*A Nonparametric
//! Approach for Multiple Change Point Analysis of Multivariate Data*, 2014), whose permutations
//! take nights as independent: of drifting ones they marked one series in four.

use std::collections::HashMap;

use fastrand::Rng;

use super::bootstrap::normal;
use super::describe;

/// Values on each side of a cut, at least: of fewer nothing is known.
const LEAST: usize = 3;

/// Share of series without a change in which one is marked.
pub const CHANCE: f64 = 0.05;

/// Share of a night that the next one keeps.
const KEEPS: f64 = 0.8;

/// Nights before a drawn series begins: then nothing is left of its start.
const BEFORE: usize = 30;

/// Fewest and most series that are drawn. Where more than 20,000 series share [`CHANCE`], none of so
/// many is rare enough, and nothing is marked.
const DRAWN: [usize; 2] = [999, 399_999];

/// A series must be able to be so many times rarer than is asked for.
const RARER: f64 = 2.0;

/// Mean distance of two draws of a normal distribution, in its standard deviations.
const APART: f64 = 1.128;

/// Seed of the drawn series: a series has the same cuts each time.
const SEED: u64 = 0x6b75_6d69_6b69;

/// Looks for changes in several series.
#[derive(Debug)]
pub struct Cuts {
    /// Share of chance for each series.
    chance: f64,
    /// Largest jumps of drawn series, by length, in ascending order.
    drawn: HashMap<usize, Vec<f64>>,
}

impl Cuts {
    /// Makes cuts for so many series at once: [`CHANCE`] of such sets have any mark where nothing
    /// changed.
    pub fn of_series(series: usize) -> Self {
        Cuts { chance: CHANCE / series.max(1) as f64, drawn: HashMap::new() }
    }

    /// True if anything that is drawn can be rare enough for so many series.
    fn can_tell(&self) -> bool {
        self.chance * (DRAWN[1] + 1) as f64 >= 1.0
    }

    /// Places at which values begin that differ from those before, in ascending order.
    pub fn points(&mut self, values: &[f64]) -> Vec<usize> {
        let mut points = Vec::new();
        if !self.can_tell() {
            return points;
        }
        self.cut(values, 0, &mut points);
        points.sort_unstable();
        points
    }

    /// The least change in the middle of the series that would be marked, in the values' unit:
    /// nothing where there are too few of them.
    pub fn least(&mut self, values: &[f64]) -> Option<f64> {
        let (n, chance) = (values.len(), self.chance);
        if n < 2 * LEAST || !self.can_tell() {
            return None;
        }
        let drawn = self.drawn(n);
        let beyond = (chance * (drawn.len() + 1) as f64).floor() as usize;
        let critical = *drawn.get(drawn.len().checked_sub(beyond.max(1))?)?;
        let middle = n / 2;
        Some(critical * usual_step(values, middle) / balance(middle, n))
    }

    fn cut(&mut self, values: &[f64], offset: usize, points: &mut Vec<usize>) {
        let Some((at, jump)) = clearest(values) else { return };
        let chance = self.chance;
        let drawn = self.drawn(values.len());
        let as_large = drawn.len() - drawn.partition_point(|other| *other < jump);
        if (as_large + 1) as f64 / (drawn.len() + 1) as f64 > chance {
            return;
        }
        points.push(offset + at);
        self.cut(&values[..at], offset, points);
        self.cut(&values[at..], offset + at, points);
    }

    /// Largest jumps of drawn series of this length.
    fn drawn(&mut self, n: usize) -> &[f64] {
        let chance = self.chance;
        self.drawn.entry(n).or_insert_with(|| {
            let mut rng = Rng::with_seed(SEED ^ n as u64);
            let series = ((RARER / chance) as usize).clamp(DRAWN[0], DRAWN[1]);
            let jump = |_| clearest(&drift(&mut rng, n, KEEPS)).map_or(0.0, |(_, jump)| jump);
            describe::sorted((0..series).map(jump))
        })
    }
}

/// A series of so many nights that keeps so much of the night before.
fn drift(rng: &mut Rng, n: usize, keeps: f64) -> Vec<f64> {
    let mut night = 0.0;
    let mut next = || {
        let square: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
        night = keeps * night + normal(rng) / (square / 3.0).max(1e-9).sqrt();
        night
    };
    (0..BEFORE).for_each(|_| _ = next());
    (0..n).map(|_| next()).collect()
}

/// The cut with the largest jump, and that.
fn clearest(values: &[f64]) -> Option<(usize, f64)> {
    let cuts = LEAST..=values.len().checked_sub(LEAST)?;
    let jump = |at: usize| {
        let [before, after] = [&values[..at], &values[at..]].map(median);
        let step = usual_step(values, at).max(f64::MIN_POSITIVE);
        (at, balance(at, values.len()) * (after - before).abs() / step)
    };
    cuts.map(jump).reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn median(values: &[f64]) -> f64 {
    describe::median_of(values.iter().copied())
}

/// Usual step from one value to the next, but for the one over the cut, as a standard deviation.
fn usual_step(values: &[f64], cut: usize) -> f64 {
    let steps = values.windows(2).enumerate().filter(|(at, _)| at + 1 != cut);
    let (sum, count) = steps
        .fold((0.0, 0.0), |(sum, count), (_, step)| (sum + (step[1] - step[0]).abs(), count + 1.0));
    sum / f64::max(count, 1.0) / APART
}

/// Weight of a cut that has few values on one side: 1 in the middle.
fn balance(cut: usize, n: usize) -> f64 {
    let (cut, n) = (cut as f64, n as f64);
    (4.0 * cut * (n - cut)).sqrt() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(levels: &[(usize, f64)], noise: f64, seed: u64) -> Vec<f64> {
        let mut rng = Rng::with_seed(seed);
        let each = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        each.map(|level| level + noise * normal(&mut rng)).collect()
    }

    fn points(values: &[f64]) -> Vec<usize> {
        Cuts::of_series(1).points(values)
    }

    #[test]
    fn levels_are_found_where_they_begin() {
        assert_eq!(points(&noisy(&[(10, 0.0), (8, 0.2)], 0.02, 1)), [10]);
        assert_eq!(points(&noisy(&[(8, 0.0), (8, 0.4), (8, -0.1)], 0.02, 2)), [8, 16]);
    }

    /// Five nights of 100 ns and four of 150, at 1 %: as few as a week and a half.
    #[test]
    fn half_as_much_again_is_found_in_nine_nights() {
        let step = 1.5_f64.ln();
        for (before, after) in [(5, 4), (4, 5), (3, 3), (17, 3)] {
            let found = (0..40).filter(|seed| {
                points(&noisy(&[(before, 0.0), (after, step)], 0.01, *seed)) == [before]
            });
            let found = found.count();
            assert!(found >= 38, "{before} + {after}: {found} of 40");
        }
    }

    #[test]
    fn drift_noise_and_one_wild_value_are_no_change() {
        let mut rng = Rng::with_seed(9);
        for (nights, keeps) in [(20, 0.0), (20, 0.6), (9, 0.8), (30, 0.8)] {
            let mut cuts = Cuts::of_series(1);
            let marked = (0..200).filter(|_| {
                let mut night = 0.0;
                let series: Vec<f64> = (0..nights + 20)
                    .map(|_| {
                        night = keeps * night + normal(&mut rng);
                        night
                    })
                    .collect();
                !cuts.points(&series[20..]).is_empty()
            });
            let marked = marked.count();
            // 5 % of 200, and two standard deviations.
            assert!(marked <= 16, "{marked} of 200 where a night keeps {keeps}, {nights} nights");
        }
        let mut wild = noisy(&[(12, 1.0)], 0.02, 3);
        wild[6] = 9.0;
        assert_eq!(points(&wild), [] as [usize; 0]);
        assert_eq!(points(&[1.0, 1.0, 2.0, 2.0]), [] as [usize; 0], "too few to tell");
        assert_eq!(points(&[1.0; 20]), [] as [usize; 0], "nothing moves");
    }

    #[test]
    fn what_is_said_to_be_found_is_found() {
        let mut cuts = Cuts::of_series(1);
        assert_eq!(cuts.least(&[1.0; 5]), None);
        let flat = noisy(&[(12, 0.0)], 0.02, 4);
        let least = cuts.least(&flat).unwrap();
        assert!((0.05..0.25).contains(&least), "{least}");
        let found = (0..40).filter(|seed| {
            let values = noisy(&[(6, 0.0), (6, 1.3 * least)], 0.02, 100 + seed);
            !cuts.points(&values).is_empty()
        });
        assert!(found.count() >= 30);
    }

    #[test]
    fn thousands_of_series_share_it_too_and_more_than_can_be_told_apart_are_not_marked() {
        let mut cuts = Cuts::of_series(1_500);
        assert!((1_500.0 * cuts.chance - CHANCE).abs() < 1e-12, "{}", cuts.chance);
        let rarest = 1.0 / (cuts.drawn(2 * LEAST).len() + 1) as f64;
        assert!(rarest <= cuts.chance, "what is drawn can be as rare as is asked: {rarest}");
        let jump = [0.0, 1e-9, -1e-9, 1e6, 1e6 + 1e-9, 1e6 - 1e-9];
        assert_eq!(cuts.points(&jump), [3]);
        let mut cuts = Cuts::of_series(30_000);
        assert_eq!((cuts.points(&jump), cuts.least(&jump)), (vec![], None));
    }

    #[test]
    fn many_series_share_what_chance_may_mark() {
        let mut rng = Rng::with_seed(10);
        let mut cuts = Cuts::of_series(50);
        let marked = (0..100).filter(|_| !cuts.points(&drift(&mut rng, 12, 0.6)).is_empty());
        assert!(marked.count() <= 1);
    }
}
