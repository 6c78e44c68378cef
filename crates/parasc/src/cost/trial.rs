//! A comparison of two ways.
//!
//! Batches of one key may differ a hundredfold: some directories are long, others at their
//! end. So what a way takes says little beside what another took some batches ago. Both get
//! parts of the same batch, or of the next ones, in *rounds*: the way, its rival, the rival,
//! the way, and the other way round in the next. So each gets as much of what comes in
//! turns, at the beginning of batches and later.
//!
//! If in nearly all rounds both samples of a way are alike, the median of the rounds
//! counts: a thread that was preempted once changes nothing. Otherwise it takes more rounds,
//! and their mean counts if it is far enough from one beside how they differ; else nothing
//! has been shown.

use super::{WAYS, Way};

/// Rounds that are enough if they agree; one, if even the better way would have taken long.
const ENOUGH: usize = 2;
/// They do, if most of them are no further apart than this …
const AGREE: f32 = 1.25;
/// … and in three of four no two samples of one way further than this.
const ALIKE: f32 = 1.5;
/// Rounds at most.
const MOST: usize = 6;
/// So many times its standard error the mean of so many rounds that do not agree, but one,
/// must be from one: by chance it is in one of twenty (Student's t).
const FAR: [f32; MOST] = [f32::INFINITY, 12.7, 4.3, 3.2, 2.8, 2.6];
/// A trial without agreement ends after so many times what is enough of it; one of a way that
/// takes …
const LONGEST: f32 = 8.0;
/// … so many times as long as the rival, by calls that sleep, does so at once.
const HOPELESS: f32 = 4.0;
/// Samples of a round …
const ROUND: usize = 4;
/// … of which the way has the two in the middle in these rounds, one bit each, and the
/// first and the last in the others. Of all orders this misjudges the fewest of those in
/// which two kinds of batches can come in turns of up to nine: 14 of 1022.
const MIRRORED: usize = 0b00_1010;

/// A way under trial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    /// The way.
    pub(super) at: usize,
    /// The best one so far.
    pub(super) rival: usize,
    /// It came sooner than it would have.
    pub(super) early: bool,
    /// So many ticks show as much as many samples.
    enough: f32,
    /// How often it has woken somebody.
    pub(super) wakes: u32,
    /// It is of no use to go on.
    pub(super) given_up: bool,
    /// Ticks that were of no use: it was tried, and nobody was there.
    pub(super) lost: f32,
    /// Batches since then for which one of the two could not be taken.
    pub(super) closed: u32,
    /// Samples so far, of both.
    taken: usize,
    /// The first ones in this round, ticks per call; 0: there is none yet.
    firsts: [f32; 2],
    /// What the way takes for one tick of the rival, of each round so far; logarithms, as
    /// twice as much and half as much are as far from one.
    rounds: [f32; MOST],
    /// Rounds in which the samples of one way differ, one bit each.
    uneven: u32,
    /// Ticks that the way has taken, in its longest sample …
    longest: f32,
    /// … and in all …
    spent: f32,
    /// … and that the better one of the two would have taken for that.
    worth: f32,
    /// What it took for one tick of the rival when it was seen to be hopeless.
    hopeless: Option<f32>,
}

impl Trial {
    pub(super) fn new(at: usize, rival: usize, early: bool, enough: f32) -> Self {
        Trial { at, rival, early, enough, ..Trial::default() }
    }

    /// Whether both are ways that are open.
    pub(super) fn is_open(&self, is_open: impl Fn(usize) -> bool) -> bool {
        is_open(self.at) && is_open(self.rival)
    }

    /// Whether it is the turn of the way itself.
    pub(super) fn is_own_turn(&self) -> bool {
        let inside = matches!(self.taken % ROUND, 1 | 2);
        inside == (MIRRORED >> self.rounds() & 1 == 1)
    }

    /// Whose turn it is.
    pub(super) fn due(&self) -> usize {
        if self.is_own_turn() { self.at } else { self.rival }
    }

    /// Takes a sample of the one whose turn it is: ticks for each of `calls`. The rival is
    /// believed to take `rival`.
    pub(super) fn take(&mut self, each: f32, calls: f32, rival: f32) {
        let (own, round) = (self.is_own_turn(), self.rounds());
        if round == MOST {
            return;
        }
        self.rounds[round] += if own { each.ln() } else { -each.ln() } / (ROUND / 2) as f32;
        let first = &mut self.firsts[usize::from(own)];
        if *first == 0.0 {
            *first = each;
        } else {
            let alike = each <= *first * ALIKE && *first <= each * ALIKE;
            self.uneven |= u32::from(!alike) << round;
        }
        if own {
            self.longest = self.longest.max(each * calls);
            self.spent += each * calls;
            self.worth += each.min(rival) * calls;
            let plain = WAYS[self.at] == Way::Inline;
            if plain && each * calls > self.enough * LONGEST && each > rival * HOPELESS {
                self.hopeless = Some(each / rival);
            }
        }
        self.taken += 1;
        if self.taken.is_multiple_of(ROUND) {
            self.firsts = [0.0; 2];
        }
    }

    /// Whether it has shown what there is to see.
    pub(super) fn is_over(&self) -> bool {
        // But for what may have been an accident.
        let is_long = self.spent - self.longest >= self.enough * LONGEST;
        let ends = || {
            is_long && self.rounds() >= ENOUGH || self.rounds() == MOST || self.agreed().is_some()
        };
        self.given_up || self.hopeless.is_some() || self.taken.is_multiple_of(ROUND) && ends()
    }

    /// Rounds that are over.
    fn rounds(&self) -> usize {
        self.taken / ROUND
    }

    /// What the way takes for one tick of its rival; `None` if that is not known.
    pub(super) fn ratio(&self) -> Option<f32> {
        if self.hopeless.is_some() {
            return self.hopeless;
        }
        self.agreed().or_else(|| self.mean()).map(f32::exp)
    }

    /// The same if nothing better is known: of rounds that do not show it.
    pub(super) fn guess(&self) -> Option<f32> {
        self.median().filter(|_| self.rounds() >= ENOUGH).map(f32::exp)
    }

    /// Ticks that the way took more than its rival would have.
    pub(super) fn price(&self) -> f32 {
        self.lost + self.spent * self.ratio().map_or(1.0, |ratio| (1.0 - 1.0 / ratio).max(0.0))
    }

    /// The median of the rounds, if they are enough and agree.
    fn agreed(&self) -> Option<f32> {
        let (count, rounds) = (self.rounds(), self.sorted());
        let last = count.checked_sub(1)?;
        let quarter = count / 4;
        let agree = rounds[last - quarter] - rounds[quarter] <= AGREE.ln();
        let alike = 4 * self.uneven.count_ones() as usize <= count;
        // What takes a multiple once may have been disturbed, however long that was.
        let are_enough = count >= ENOUGH || self.worth >= self.enough;
        if are_enough && agree && alike { self.median() } else { None }
    }

    fn median(&self) -> Option<f32> {
        let (count, rounds) = (self.rounds(), self.sorted());
        let last = count.checked_sub(1)?;
        Some((rounds[last / 2] + rounds[count / 2]) / 2.0)
    }

    /// Those that are over come first.
    fn sorted(&self) -> [f32; MOST] {
        let mut rounds = self.rounds;
        rounds[..self.rounds()].sort_by(f32::total_cmp);
        rounds
    }

    /// The mean of the rounds, if it is far from one.
    fn mean(&self) -> Option<f32> {
        let rounds = &self.rounds[..self.rounds()];
        let count = rounds.len() as f32;
        let mean = rounds.iter().sum::<f32>() / count;
        let squares: f32 = rounds.iter().map(|round| (round - mean).powi(2)).sum();
        let error = (squares / (count * (count - 1.0))).sqrt();
        let far = FAR[rounds.len().checked_sub(1)?];
        (mean.abs() > far * error).then_some(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial of batches that take so much, with a way that takes `ratio`.
    fn trial(ratio: f32, mut load: impl FnMut(usize) -> f32) -> Trial {
        let mut trial = Trial::new(1, 0, false, f32::MAX);
        for at in 0.. {
            if trial.is_over() {
                break;
            }
            let each = load(at) * if trial.due() == 1 { ratio } else { 1.0 };
            trial.take(each, 1.0, 1.0);
        }
        trial
    }

    #[test]
    fn what_comes_in_turns_is_hardly_taken_for_a_difference() {
        let (mut wrong, mut orders) = (0, 0);
        for (kinds, order) in (1..10).flat_map(|kinds| (0..1 << kinds).map(move |at| (kinds, at))) {
            let heavy = |at: usize| order >> (at % kinds) & 1 == 1;
            let found = |ratio| trial(ratio, |at| if heavy(at) { 20.0 } else { 1.0 }).ratio();
            wrong += u32::from(found(0.6).is_some_and(|ratio| ratio > 1.0));
            wrong += u32::from(found(1.7).is_some_and(|ratio| ratio < 1.0));
            orders += 2;
        }
        assert!(wrong <= 14 && orders == 2044, "{wrong} of {orders}");
        for loads in [&[1.0][..], &[1.0, 1.2], &[1.0, 100.0], &[1.0, 7.0, 300.0]] {
            for phase in 0..loads.len() {
                let trial = trial(0.6, |at| loads[(at + phase) % loads.len()]);
                let near = |found: f32| (found / 0.6 - 1.0).abs() < 0.05;
                assert!(trial.ratio().is_none_or(near), "{loads:?}: {trial:?}");
            }
        }
        // Which it shows if nothing else differs much.
        assert_eq!(trial(0.6, |_| 7.0).rounds(), ENOUGH);
        assert!((trial(0.6, |at| 1.0 + at as f32 % 1.2).ratio().unwrap() - 0.6).abs() < 0.1);
    }

    #[test]
    fn what_comes_as_it_likes_hides_all_but_what_is_far_better() {
        let mut seed = 1_u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as f32 / 65_536.0
        };
        let mut wrong_of_200 = |load: &mut dyn FnMut(f32) -> f32| {
            let (mut wrong, mut shown) = (0, 0);
            for _ in 0..100 {
                let mut found = |ratio| trial(ratio, |_| load(random())).ratio();
                wrong += u32::from(found(0.6).is_some_and(|ratio| ratio > 1.0));
                wrong += u32::from(found(1.7).is_some_and(|ratio| ratio < 1.0));
                shown += u32::from(found(1e-6).is_some_and(|ratio| ratio < 0.1));
                shown += u32::from(found(1e6).is_some_and(|ratio| ratio > 10.0));
            }
            assert!(shown > 180, "{shown}");
            wrong
        };
        let any = wrong_of_200(&mut |random| (random * 6.0).exp());
        assert!(any < 10, "{any}");
        for part in [0.1, 0.2, 0.33, 0.5] {
            let two = wrong_of_200(&mut |random| if random < part { 20.0 } else { 1.0 });
            assert!(two < 10, "{part}: {two}");
        }
    }

    #[test]
    fn one_accident_changes_nothing() {
        for accident in 0..ENOUGH * ROUND {
            let found = trial(0.8, |at| if at == accident { 1e4 } else { 1.0 });
            assert!((found.ratio().unwrap() - 0.8).abs() < 0.01, "{accident}: {found:?}");
        }
    }

    #[test]
    fn both_get_as_many_samples_and_long_ones_are_soon_enough() {
        let due = |calls: f32| {
            let (mut trial, mut due) = (Trial::new(2, 0, false, 7.0), Vec::new());
            while !trial.is_over() {
                due.push(trial.due());
                trial.take(1.0, calls, 1.0);
            }
            assert_eq!((trial.ratio(), trial.price()), (Some(1.0), 0.0));
            due
        };
        assert_eq!(due(3.0), [2, 0, 0, 2, 0, 2, 2, 0]);
        assert_eq!(due(4.0), [2, 0, 0, 2]);
    }

    #[test]
    fn what_takes_long_in_the_first_round_only_was_disturbed() {
        let mut trial = Trial::new(1, 0, false, 7.0);
        for at in 0.. {
            if trial.is_over() {
                break;
            }
            let own = if at < ROUND { 12.0 } else { 0.6 };
            trial.take(if trial.due() == 1 { own } else { 1.0 }, 1.0, 1.0);
        }
        assert!((trial.ratio().unwrap() - 0.6).abs() < 0.01 && trial.rounds() > ENOUGH);
    }

    #[test]
    fn plain_calls_that_take_far_too_long_are_tried_once() {
        let mut trial = Trial::new(0, 1, false, 1.0);
        trial.take(10.0, 10.0, 1.0);
        assert!(trial.is_over());
        assert_eq!((trial.ratio(), trial.price()), (Some(10.0), 90.0));
    }

    #[test]
    fn its_price_is_what_the_rival_would_have_saved() {
        assert_eq!(Trial::new(1, 0, false, 1.0).ratio(), None);
        let price = |ratio| trial(ratio, |_| 10.0).price();
        assert!((price(1.5) - 20.0).abs() < 0.1 && price(0.5) == 0.0);
    }
}
