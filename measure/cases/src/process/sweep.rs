//! Which sizes, in which ways touched, each kind of run measures.

use crate::mapping::Touch;
use crate::sweep::nonzero;
use kumiki_measure::case::{Choice, Level};

/// One kibibyte.
pub(super) const K: u64 = 1 << 10;
/// One mebibyte.
pub(super) const M: u64 = 1 << 20;

/// Sizes other than zero, each with the shortest run that includes it.
pub(super) type Sizes = &'static [(u64, Level)];

/// The ways to touch memory: untouched and written show the extremes, so that
/// quick runs leave reading out.
pub(super) const TOUCHES: [(Touch, Level); 3] =
    [(Touch::None, Level::Quick), (Touch::Read, Level::Default), (Touch::Write, Level::Quick)];

/// Every size with every touch, and the level of the longer of the two.
pub(super) fn touched(choice: &Choice, own: Sizes) -> Vec<(u64, Touch, Level)> {
    let sizes = nonzero(choice, own);
    TOUCHES
        .iter()
        .flat_map(|(touch, t)| sizes.iter().map(move |(size, s)| (*size, *touch, *s.max(t))))
        .collect()
}

/// Number by which the programs know the access, `TOUCH_*` of each processor's `common.s`.
pub(super) fn touch_number(touch: Touch) -> u64 {
    match touch {
        Touch::None => 0,
        Touch::Read => 1,
        Touch::Write => 2,
    }
}
