//! The choice of [`Method::Auto`](super::Method::Auto).
//!
//! Nobody says whether the bytes are in a cache, and it decides everything:
//! here one thread copies 130 GB/s within its own caches, two threads 30,
//! because half of the lines must travel to the helper first; from memory it
//! is one thread's 21 against 55. So the copy begins as `memcpy`, by a piece
//! whose time tells. While pieces come from a cache, it goes on so, with larger
//! ones; at the first that comes from memory, the rest is shared.

use std::sync::OnceLock;

use super::costs::{Costs, PIECE, ticks_of};
use super::region::Region;
use super::{Pair, share};

/// Below this no fork pays anywhere: the paper's machine and the ones measured
/// since break even at 16 KiB and above.
const FLOOR: usize = 16 << 10;
/// A longer piece costs less, a shorter one notices sooner that the cache ends.
const LONGEST_PIECE: usize = 512 << 10;
const GROWTH: usize = 16;

/// Measured at the first copy of [`FLOOR`] bytes or more in this process.
static COSTS: OnceLock<Costs> = OnceLock::new();

pub(super) fn copy<P: Pair>(pair: &mut P, region: Region<'_>) {
    if region.len() < FLOOR {
        return region.copy();
    }
    let costs = COSTS.get_or_init(|| Costs::measure(pair));
    let share_from = costs.share_from(pair.wake_ticks());
    let worth = |len: usize| len >= share_from.min(costs.stream_from);

    let (mut rest, mut piece) = (region, PIECE);
    loop {
        if !worth(rest.len()) || rest.len() <= piece {
            return rest.copy();
        }
        let (head, tail) = rest.split_at(piece);
        let ticks = ticks_of(|| head.copy());
        rest = tail;
        if costs.from_memory(piece, ticks) {
            break;
        }
        piece = (piece * GROWTH).min(LONGEST_PIECE);
    }
    let past_caches = rest.len() >= costs.stream_from;
    let copy = if past_caches { Region::stream } else { Region::copy };
    if rest.len() >= share_from { share::copy(pair, rest, copy) } else { copy(rest) }
}
