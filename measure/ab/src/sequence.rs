//! An interval for the difference within pairs that may be looked at after every pair.
//!
//! An interval of 95 % that is computed after each pair, until it happens to be on one side,
//! misses far more often than in 5 % of all experiments. This one does not: that it ever
//! leaves the truth out, at any pair, has at most that probability.
//!
//! # How
//!
//! Let `d` be the logarithm of B over A within a pair, and `t` a value that the difference
//! might have. Which of the two ran first was drawn, so if they cost the same each `d` is as
//! likely to be above zero as below, by the same amount, whatever others did to the machine
//! meanwhile; and if B costs the same times a factor, `d − t` is, for its logarithm. Cut to the range −1 to 1 of a scale that is known *before* the pair
//! (from the pairs before it), `x = clip((d − t) ÷ scale)`, that stays so; then for any λ the
//! product of `exp(λx − λ²x²÷2)` over the pairs never grows in expectation (de la Peña, *A
//! General Class of Exponential Inequalities for Martingales and Ratios*, 1999; cosh(y) ≤
//! exp(y²÷2)), and neither does its mean over a normal distribution of λ with variance ρ²:
//!
//! ```text
//!  E = exp( S² ÷ 2(V + 1/ρ²) ) ÷ √(1 + ρ²V)      S = Σx   V = Σx²
//! ```
//!
//! Ville's inequality: that E ever reaches 1/α has at most probability α. The interval is
//! every `t` for which E is below that (Howard, Ramdas, McAuliffe and Sekhon, *Time-uniform,
//! nonparametric, nonasymptotic confidence sequences*, 2021).
//!
//! What is said of pairs holds for rounds: some pairs in a row, of which each side's least
//! time is taken, because others only ever add to it.
//!
//! Cutting makes one pair that was disturbed count as one pair, however far it is off.

use kumiki_measure::stats::describe;

/// Share of intervals that may ever miss, unless another is asked for.
pub const MISSES: f64 = 0.05;

/// The variance of λ: narrowest at about forty pairs.
const RHO2: f64 = 0.33;

/// Pairs before a scale is taken from those that came before.
const FIRST: usize = 5;

/// The scale is that of so many: a machine does not stay as it is, nor do rounds.
const LAST: usize = 20;

/// The scale until then: commands vary by some percent.
const SCALE: f64 = 0.03;

/// The least scale: below it pairs are alike.
const LEAST: f64 = 1e-4;

/// A scale is so many standard deviations of those pairs that are not far off.
const DEVIATIONS: f64 = 1.5;

/// Turns of a bisection: a hundredth of a millionth of any range.
const TURNS: usize = 60;

/// Knowledge of the difference after some pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Each pair's logarithm of B over A, and the scale that was known before it.
    pairs: Vec<(f64, f64)>,
    /// Probability that the interval ever leaves out the difference.
    misses: f64,
}

impl Default for Sequence {
    fn default() -> Self {
        Sequence::missing(MISSES)
    }
}

impl Sequence {
    /// One whose interval ever misses in this share of all comparisons: several that are asked at
    /// once share what may be missed.
    pub fn missing(misses: f64) -> Self {
        Sequence { pairs: Vec::new(), misses }
    }

    /// Adds a pair: ln(B ÷ A).
    pub fn push(&mut self, difference: f64) {
        let scale = self.scale();
        self.pairs.push((difference, scale));
    }

    /// Pairs until now.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// True if there is no pair yet.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The middle of the differences: where they cancel each other. NaN without pairs.
    pub fn estimate(&self) -> f64 {
        if self.pairs.is_empty() {
            return f64::NAN;
        }
        let [low, high] = self.ends();
        bisect(low, high, |t| self.sums(t).0 > 0.0)
    }

    /// The interval that holds the difference, at this pair and at every other, in all but the
    /// share of comparisons that may miss. Without ends before the tenth pair.
    pub fn interval(&self) -> [f64; 2] {
        let [low, high] = self.ends();
        if self.pairs.is_empty() || !self.excludes(low) || !self.excludes(high) {
            return [f64::NEG_INFINITY, f64::INFINITY];
        }
        let middle = self.estimate();
        [bisect(low, middle, |t| self.excludes(t)), bisect(middle, high, |t| !self.excludes(t))]
    }

    /// True if the pairs are too one-sided for the difference to be `t`.
    fn excludes(&self, t: f64) -> bool {
        let (s, v) = self.sums(t);
        let log = s * s / (2.0 * (v + 1.0 / RHO2)) - 0.5 * (RHO2 * v).ln_1p();
        log >= (1.0 / self.misses).ln()
    }

    fn sums(&self, t: f64) -> (f64, f64) {
        let cut = self.pairs.iter().map(|(d, scale)| ((d - t) / scale).clamp(-1.0, 1.0));
        cut.fold((0.0, 0.0), |(s, v), x| (s + x, v + x * x))
    }

    /// Beyond these every pair is on one side by its whole scale.
    fn ends(&self) -> [f64; 2] {
        let at = |sign: f64| self.pairs.iter().map(move |(d, scale)| d + sign * scale);
        [at(-1.0).fold(f64::INFINITY, f64::min), at(1.0).fold(f64::NEG_INFINITY, f64::max)]
    }

    /// Scale of the last pairs until now.
    fn scale(&self) -> f64 {
        if self.pairs.len() < FIRST {
            return SCALE;
        }
        let last = self.pairs.len().saturating_sub(LAST);
        let all: Vec<f64> = self.pairs[last..].iter().map(|(d, _)| *d).collect();
        let middle = describe::median_of(all.iter().copied());
        (DEVIATIONS * 1.4826 * describe::mad(&all, middle)).max(LEAST)
    }
}

/// Point between two ends where `below` changes from true to false.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..TURNS {
        let middle = low + (high - low) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(rng: &mut fastrand::Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.f64()).cos()
    }

    /// A command beside a neighbour: every few pairs the neighbour takes up to half of the
    /// cpu, for some pairs in a row, and single runs are hit.
    struct Busy {
        rng: fastrand::Rng,
        load: f64,
    }

    impl Busy {
        fn run(&mut self, cost: f64) -> f64 {
            if self.rng.f64() < 0.1 {
                self.load = self.rng.f64();
            }
            let hit = if self.rng.f64() < 0.2 { 1.0 + 2.0 * self.rng.f64() } else { 1.0 };
            let own = (0.02 * normal(&mut self.rng)).exp();
            cost * own * hit * (1.0 + self.load)
        }

        /// ln(B ÷ A), which first is drawn.
        fn pair(&mut self, ratio: f64) -> f64 {
            if self.rng.bool() {
                let a = self.run(1.0);
                (self.run(ratio) / a).ln()
            } else {
                let b = self.run(ratio);
                (b / self.run(1.0)).ln()
            }
        }
    }

    fn quiet(rng: &mut fastrand::Rng, ratio: f64) -> f64 {
        (ratio).ln() + 0.01 * normal(rng)
    }

    /// Shares of comparisons whose interval ever left out the truth, and that ever left out
    /// "no difference".
    fn ever(pairs: usize, truth: f64, mut pair: impl FnMut() -> f64) -> (f64, f64) {
        const TRIALS: usize = 100;
        let (mut missed, mut found) = (0, 0);
        for _ in 0..TRIALS {
            let mut sequence = Sequence::default();
            let (mut out, mut apart) = (false, false);
            for _ in 0..pairs {
                sequence.push(pair());
                let [low, high] = sequence.interval();
                out |= !(low..=high).contains(&truth.ln());
                apart |= low > 0.0;
            }
            missed += usize::from(out);
            found += usize::from(apart);
        }
        (missed as f64 / TRIALS as f64, found as f64 / TRIALS as f64)
    }

    #[test]
    fn looking_after_each_pair_does_not_find_what_is_not_there() {
        let mut busy = Busy { rng: fastrand::Rng::with_seed(7), load: 0.0 };
        let (missed, _) = ever(60, 1.0, || busy.pair(1.0));
        assert!(missed <= 0.05, "beside a neighbour {missed}");
        let mut rng = fastrand::Rng::with_seed(8);
        let (missed, _) = ever(60, 1.0, || quiet(&mut rng, 1.0));
        assert!(missed <= 0.05, "quiet {missed}");
    }

    #[test]
    fn three_percent_are_found() {
        let mut rng = fastrand::Rng::with_seed(9);
        let (missed, found) = ever(40, 1.03, || quiet(&mut rng, 1.03));
        assert!(missed <= MISSES && found >= 0.95, "{missed} {found}");
    }

    #[test]
    fn nothing_is_known_before_the_tenth_pair() {
        let mut sequence = Sequence::default();
        assert!(sequence.estimate().is_nan() && sequence.interval()[0].is_infinite());
        for _ in 0..9 {
            sequence.push(1.0);
            assert_eq!(sequence.interval(), [f64::NEG_INFINITY, f64::INFINITY]);
        }
        sequence.push(1.0);
        let [low, high] = sequence.interval();
        assert!(0.9 < low && high < 1.1, "{low} {high}");
        assert!((sequence.estimate() - 1.0).abs() < 1e-6);
    }

    /// Counts are whole numbers, mostly the same ones.
    #[test]
    fn a_difference_of_counts_is_found_and_one_of_noise_is_not() {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut apart = |more: f64| {
            let mut sequence = Sequence::missing(MISSES / 9.0);
            for _ in 0..40 {
                let noise = if rng.f64() < 0.2 { f64::from(rng.i32(-2..=2)) } else { 0.0 };
                sequence.push((more + noise) / 80.0);
            }
            sequence.interval().map(|end| end * 80.0)
        };
        let [low, high] = apart(40.0);
        assert!((39.0..=40.0).contains(&low) && (40.0..41.0).contains(&high), "{low} {high}");
        let missed = (0..100).filter(|_| apart(0.0)[0] > 0.0 || apart(0.0)[1] < 0.0).count();
        assert_eq!(missed, 0);
    }

    #[test]
    fn fewer_misses_take_more_pairs() {
        let tells = |misses: f64| {
            let mut sequence = Sequence::missing(misses);
            (1..).find(|_| {
                sequence.push(1.0);
                sequence.interval()[0] > 0.0
            })
        };
        assert_eq!([0.05, 0.02, 0.05 / 9.0].map(tells), [Some(10), Some(12), Some(15)]);
    }

    #[test]
    fn one_wild_pair_is_one_pair() {
        let pairs = |last: f64| {
            let mut sequence = Sequence::default();
            for i in 0..30 {
                sequence.push(0.01 * f64::from(i % 3));
            }
            sequence.push(last);
            sequence.interval()
        };
        let (near, far) = (pairs(0.5), pairs(50.0));
        assert!(near.iter().zip(far).all(|(a, b)| (a - b).abs() < 1e-9), "{near:?} {far:?}");
    }
}
