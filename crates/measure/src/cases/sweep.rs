//! The sizes over which a case is swept.

use crate::case::{Choice, Level};

/// Sizes in bytes, ascending, each with the shortest run that includes it:
/// `quick` are part of every run, `longer` of those of some minutes. Sizes
/// that a person chose replace both and are always run.
pub(super) fn sizes(choice: &Choice, quick: &[u64], longer: &[u64]) -> Vec<(u64, Level)> {
    let own: Vec<u64> = quick.iter().chain(longer).copied().collect();
    let mut sizes = choice.sizes_or(&own);
    sizes.sort_unstable();
    sizes.dedup();
    let chosen = choice.sizes.is_some();
    let level = |bytes| {
        if chosen || quick.contains(&bytes) { Level::Quick } else { Level::Default }
    };
    sizes.into_iter().map(|bytes| (bytes, level(bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sizes_come_in_order_with_their_levels() {
        let sizes = sizes(&Choice::default(), &[4096, 1 << 20], &[512]);
        let expected = [(512, Level::Default), (4096, Level::Quick), (1 << 20, Level::Quick)];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn chosen_sizes_are_always_run_and_never_twice() {
        let choice = Choice { sizes: Some(vec![8192, 3, 8192]), ..Choice::default() };
        assert_eq!(sizes(&choice, &[4096], &[]), [(3, Level::Quick), (8192, Level::Quick)]);
    }
}
