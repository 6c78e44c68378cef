//! The sizes over which a case is swept.

use kumiki_measure::case::{Choice, Level};

/// Sizes in bytes, ascending, each with the shortest run that includes it:
/// those that a person chose, in every run, or else `own`.
pub(super) fn sizes(choice: &Choice, own: &[(u64, Level)]) -> Vec<(u64, Level)> {
    let mut sizes = match &choice.sizes {
        Some(chosen) => chosen.iter().map(|&bytes| (bytes, Level::Quick)).collect(),
        None => own.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Sizes without zero: for a thing of which nothing cannot be measured, or is the same row in every
/// sweep.
pub(super) fn nonzero(choice: &Choice, own: &[(u64, Level)]) -> Vec<(u64, Level)> {
    let mut sizes = sizes(choice, own);
    sizes.retain(|&(bytes, _)| bytes > 0);
    sizes
}

/// A sweep's own sizes: `quick` ones of every run, `longer` ones of those of
/// some minutes.
pub(super) fn own(quick: &[u64], longer: &[u64]) -> Vec<(u64, Level)> {
    let with = |sizes: &[u64], level| sizes.iter().map(move |&bytes| (bytes, level)).collect();
    let parts: [Vec<_>; 2] = [with(quick, Level::Quick), with(longer, Level::Default)];
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sizes_come_in_order_with_their_levels() {
        let sizes = sizes(&Choice::default(), &own(&[4096, 1 << 20], &[512]));
        let expected = [(512, Level::Default), (4096, Level::Quick), (1 << 20, Level::Quick)];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn chosen_sizes_are_always_run_and_never_twice() {
        let choice = Choice { sizes: Some(vec![8192, 0, 8192]), ..Choice::default() };
        let own = [(4096, Level::Full)];
        assert_eq!(sizes(&choice, &own), [(0, Level::Quick), (8192, Level::Quick)]);
        assert_eq!(nonzero(&choice, &own), [(8192, Level::Quick)]);
    }
}
