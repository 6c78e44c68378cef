//! Rounds in which each subject has a turn, in a new order each time.

use anyhow::Result;

/// A subject's name, and its turn: samples that depend on each other.
pub(super) type Subject<'a> = (&'static str, Box<dyn FnMut() -> Result<Vec<f64>> + 'a>);

/// A subject's name, and its samples, a group a round.
pub(super) type Measured = (&'static str, Vec<Vec<f64>>);

/// Samples of each subject, a group a round. The first round does not count.
pub(super) fn interleaved(rounds: usize, subjects: &mut [Subject<'_>]) -> Result<Vec<Measured>> {
    let mut groups: Vec<_> = subjects.iter().map(|(name, _)| (*name, Vec::new())).collect();
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut random = fastrand::Rng::new();
    for round in 0..=rounds {
        random.shuffle(&mut order);
        for at in &order {
            let samples = subjects[*at].1()?;
            if round > 0 {
                groups[*at].1.push(samples);
            }
        }
    }
    Ok(groups)
}

/// One figure of turns that give several.
pub(super) fn figure(groups: &[Vec<f64>], at: usize) -> Vec<Vec<f64>> {
    groups.iter().map(|group| vec![group[at]]).collect()
}
