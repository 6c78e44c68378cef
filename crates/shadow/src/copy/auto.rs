//! The choice of [`Method::Auto`](super::Method::Auto).
//!
//! Nobody says whether the bytes are in a cache, and it decides everything:
//! here one thread copies 130 GB/s within its own caches, two threads 30,
//! because half of the lines must travel to the helper first; from memory it
//! is one thread's 21 against 55. So a large copy begins as `memcpy`, by a piece
//! at the start and one at the end whose times tell. Both from memory: the rest
//! is shared. Both from a cache: on as before, with larger pieces, until one
//! comes from memory. One of each: the border is somewhere between, and each
//! half is a copy of its own. A destination without pages looks like memory, too.

use super::costs::{Costs, PIECE, ticks_of};
use super::region::Region;
use super::{Pair, known, share};

/// Below this it is `memcpy` and nothing else. From memory two threads would be
/// faster from an eighth of it on, where they are two cores. But in a cache a
/// copy so short takes so little that looking at the clock shows, and a mistake
/// about where it is doubles its time.
pub(super) const FLOOR: usize = 1 << 20;
/// The piece after the first, and those after it: a longer one costs less, a
/// shorter one notices sooner that the cache ends or was never there.
const SECOND_PIECE: usize = 64 << 10;
const LATER_PIECE: usize = 512 << 10;

/// Bytes of the pieces at the start and the end of so many: the longer, the
/// surer, but from memory they take two to three times as long as the rest.
fn look(len: usize) -> usize {
    (len / 64).clamp(PIECE, SECOND_PIECE)
}

/// Copies a region of [`FLOOR`] bytes or more.
pub(super) fn copy<P: Pair>(pair: &mut P, mut region: Region<'_>) {
    let costs = match known::known() {
        Some(costs) => costs,
        None => {
            let at = known::plain(region.len());
            let (plain, rest) = region.split_at(at);
            plain.copy();
            if rest.len() < FLOOR {
                return rest.copy();
            }
            region = rest;
            known::measure(pair)
        }
    };
    Auto { look: &mut Clock(&costs), costs: &costs, pair }.copy(region, false);
}

/// Copies pieces as `memcpy` does, and tells where they came from.
trait Look {
    /// Whether a piece, of [`PIECE`] bytes or more, came from memory for which
    /// nobody has prefetched.
    fn first_from_memory(&mut self, piece: Region<'_>) -> bool;

    /// The same of one that follows another.
    fn later_from_memory(&mut self, piece: Region<'_>) -> bool;
}

struct Clock<'a>(&'a Costs);

impl Look for Clock<'_> {
    fn first_from_memory(&mut self, piece: Region<'_>) -> bool {
        let len = piece.len();
        self.0.first_from_memory(len, ticks_of(|| piece.copy()))
    }

    fn later_from_memory(&mut self, piece: Region<'_>) -> bool {
        let len = piece.len();
        self.0.later_from_memory(len, ticks_of(|| piece.copy()))
    }
}

struct Auto<'a, L, P> {
    look: &'a mut L,
    costs: &'a Costs,
    pair: &'a mut P,
}

impl<L: Look, P: Pair> Auto<'_, L, P> {
    /// Copies a region, of which it may be known that it begins in memory.
    fn copy(&mut self, mut region: Region<'_>, mut begins: bool) {
        let share_from = self.costs.share_from(self.pair.wake_ticks()).max(FLOOR - 2 * look(FLOOR));
        let enough = share_from.min(self.costs.stream_from);
        loop {
            let len = look(region.len());
            if region.len() < enough + 2 * len {
                return region.copy();
            }
            let at = region.len() - len;
            let (mut rest, last) = region.split_at(at);
            let ends = self.look.first_from_memory(last);
            if !begins {
                let (first, others) = rest.split_at(len);
                begins = self.look.first_from_memory(first);
                rest = others;
            }
            region = match (begins, ends) {
                (true, true) => return self.copy_memory(rest, share_from),
                (false, false) => {
                    begins = true;
                    self.copy_cached(rest)
                }
                _ => {
                    let (half, other) = rest.halves();
                    self.copy(half, begins);
                    begins = false;
                    other
                }
            };
        }
    }

    /// Copies with both threads, or past the caches, or both, as it pays.
    fn copy_memory(&mut self, region: Region<'_>, share_from: usize) {
        // A page that the kernel gives at the first touch is in a cache then, as it has
        // been cleared. Asked last: in a cache the call would show.
        let past_caches = region.len() >= self.costs.stream_from && region.is_backed();
        let copy = if past_caches { Region::stream } else { Region::copy };
        match region.len() >= share_from {
            true => share::copy(self.pair, region, copy),
            false => copy(region),
        }
    }

    /// Copies until a piece came from memory, and returns what follows it.
    fn copy_cached<'a>(&mut self, mut region: Region<'a>) -> Region<'a> {
        let mut len = SECOND_PIECE;
        while region.len() > 0 {
            let (piece, rest) = region.split_at(len);
            region = rest;
            if self.look.later_from_memory(piece) {
                break;
            }
            len = LATER_PIECE;
        }
        region
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use kumiki_sys::shm::{Anon, Huge, Populate};

    use super::*;

    /// A helper that is counted, and asleep or not.
    struct Counted {
        forks: u32,
        wake_ticks: u64,
    }

    impl Pair for Counted {
        fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
            self.forks += 1;
            theirs();
            ours();
        }

        fn wake_ticks(&self) -> u64 {
            self.wake_ticks
        }
    }

    /// Knows where the bytes are.
    struct Model {
        /// Addresses of the source that are in a cache.
        cached: Range<usize>,
        /// Bytes that went by `memcpy` while it looked, of each kind.
        looked: [usize; 2],
    }

    impl Model {
        /// The greater part of a piece decides.
        fn copy(&mut self, piece: Region<'_>) -> bool {
            let (start, len) = (piece.footprint().from, piece.len());
            let end = (start + len).min(self.cached.end);
            let cached = end.saturating_sub(start.max(self.cached.start));
            self.looked[0] += cached;
            self.looked[1] += len - cached;
            piece.copy();
            cached * 2 < len
        }
    }

    impl Look for Model {
        fn first_from_memory(&mut self, piece: Region<'_>) -> bool {
            assert!(piece.len() >= PIECE);
            self.copy(piece)
        }

        fn later_from_memory(&mut self, piece: Region<'_>) -> bool {
            self.copy(piece)
        }
    }

    const COSTS: Costs =
        Costs { fork_ticks: 0, first_ticks: 1, later_ticks: 1, stream_from: 1 << 19 };
    const LEN: usize = 9_000_001;

    /// Copies `len` bytes of which those in `cached` are in a cache, checks
    /// them, and returns the forks and the bytes looked at: cached ones, others.
    fn copied(len: usize, cached: Range<usize>, wake_ticks: u64) -> (u32, [usize; 2]) {
        let from: Vec<u8> = (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        let mut to = vec![1; len];
        let start = from.as_ptr().addr();
        let cached = start + cached.start..start + cached.end;
        let mut look = Model { cached, looked: [0; 2] };
        let mut pair = Counted { forks: 0, wake_ticks };
        let region = Region::new(&mut to, &from).unwrap();
        Auto { look: &mut look, costs: &COSTS, pair: &mut pair }.copy(region, false);
        assert!(to == from, "{len} bytes");
        (pair.forks, look.looked)
    }

    #[test]
    fn what_is_in_memory_is_shared_after_two_pieces() {
        for len in [FLOOR, FLOOR + 1, LEN] {
            assert_eq!(copied(len, 0..0, 0), (1, [0, 2 * look(len)]));
        }
    }

    #[test]
    fn what_is_in_a_cache_is_not_shared() {
        for len in [FLOOR, FLOOR + 1, LEN] {
            assert_eq!(copied(len, 0..len, 0), (0, [len, 0]));
        }
    }

    #[test]
    fn nothing_waits_for_a_helper_whose_wake_takes_longer() {
        for len in [FLOOR, 1_600_000, LEN] {
            assert_eq!(copied(len, 0..0, u64::MAX).0, 0);
        }
    }

    #[test]
    fn a_border_is_found() {
        for border in [PIECE, 100_000, 1 << 20, LEN / 2, 5_000_000, LEN - PIECE] {
            for cached in [0..border, border..LEN] {
                let len = cached.len();
                let (forks, [looked, others]) = copied(LEN, cached, 0);
                // Where it lies a megabyte at most is taken for the other kind,
                // or goes by `memcpy` unseen.
                assert!(looked + FLOOR >= len, "{looked} of {len} cached, border {border}");
                assert!(others < FLOOR, "{others} from memory were looked at, border {border}");
                assert!(forks > 0 || LEN - len < 2 * FLOOR, "never shared, border {border}");
            }
        }
    }

    #[test]
    fn a_destination_without_pages_is_shared() {
        let look_len = look(LEN);
        for (wake_ticks, forks) in [(0, 1), (u64::MAX, 0)] {
            let mut pair = Counted { forks: 0, wake_ticks };
            let from = vec![1_u8; LEN];
            let memory = Anon::new(LEN, Huge::Never, Populate::OnTouch).unwrap();
            // SAFETY: just mapped, of that length, and nobody else knows it.
            let to = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), LEN) };
            let mut look = Model { cached: 0..0, looked: [0; 2] };
            let region = Region::new(to, &from).unwrap();
            Auto { look: &mut look, costs: &COSTS, pair: &mut pair }.copy(region, false);
            assert!(*to == from);
            assert_eq!((pair.forks, look.looked), (forks, [0, 2 * look_len]));
        }
    }

    #[test]
    fn memory_between_caches_is_found_when_it_is_reached() {
        let mut pair = Counted { forks: 0, wake_ticks: 0 };
        let (mut to, from) = (vec![2; LEN], vec![1; LEN]);
        /// In memory from the third megabyte to the fourth last.
        struct Middle(usize);
        impl Look for Middle {
            fn first_from_memory(&mut self, piece: Region<'_>) -> bool {
                self.later_from_memory(piece)
            }

            fn later_from_memory(&mut self, piece: Region<'_>) -> bool {
                let at = piece.footprint().from - self.0;
                piece.copy();
                (2 << 20..5 << 20).contains(&at)
            }
        }
        let mut look = Middle(from.as_ptr().addr());
        let region = Region::new(&mut to, &from).unwrap();
        Auto { look: &mut look, costs: &COSTS, pair: &mut pair }.copy(region, false);
        assert!(to == from && pair.forks > 0);
    }
}
