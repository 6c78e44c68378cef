//! Address spaces: mapping, resizing, protecting, and the page faults that
//! put memory behind addresses.

use kumiki_measure::case::{Case, Choice};

mod change;
mod fault;
mod map;
mod resize;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let parts = [map::cases, resize::cases, change::cases];
    parts.iter().flat_map(|part| part(choice)).chain(fault::cases()).map(Case::apart).collect()
}
