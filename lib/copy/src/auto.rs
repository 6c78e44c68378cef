//! The choice of [`Method::Auto`](crate::Method::Auto).
//!
//! Nobody says whether the bytes are in a cache, and it decides everything:
//! here one thread copies 130 GB/s within its own caches, two threads 30,
//! because half of the lines must travel to the helper first; from memory it
//! is one thread's 21 against 55. So a large copy begins with a look at some lines
//! of the source's middle. In a cache: each half is a copy of its own, down to a
//! size that is `memcpy`. Otherwise lines of the end and, of a longer copy, of the
//! start are looked at, and the pieces around them are copied. Both from memory, and the
//! destination's middle in no cache either: the rest is shared. Both from a cache, a slow
//! one: on as before, with larger pieces, until one comes from memory. One of each: the
//! border is somewhere between, and each half is a copy of its own. A destination without
//! pages is told by the pieces' time, counts as memory, and is shared if it is large.

use kumiki_wait::Deadline;

use crate::costs::{Costs, FLOOR, PIECE, ticks_of};
use crate::pair::Pair;
use crate::probe::{self, Probe};
use crate::region::Region;
use crate::{known, share};

/// The piece after the first, and those after it: a longer one costs less, a
/// shorter one notices sooner that the cache ends or was never there. Row `copy_stale_start`.
const SECOND_PIECE: usize = 64 << 10;
const LATER_PIECE: usize = 512 << 10;
/// Length from which on the middle is looked at, too, where a next cache may have lines that both
/// ends have not; in less it does not matter. Row `copy_stale_half`.
const HALVED: usize = 4 * FLOOR;
/// Halves of less are not shared if the destination has no pages: 2 MiB of them are in
/// one page table with one lock, and two threads that both wait for the kernel to give
/// them pages of it took four times as long on a virtual machine, where who finds a lock
/// taken may halt its cpu. Row `copy_fresh`.
const TABLES: usize = 2 * (2 << 20);
/// A helper that is kept awake waits for as long as so many pieces from memory take;
/// there are two, the destination's middle and, at times, a question to the kernel.
/// Row `copy_cold` of `kumiki/awake`.
const PATIENCE: usize = 16;

/// Bytes of the pieces at the start and the end of so many: the longer, the surer their
/// time tells missing pages, but from memory they take two to three times as long as the rest. Rows
/// `copy_fresh`, `copy_cold`.
fn look(len: usize) -> usize {
    (len / 128).clamp(PIECE, SECOND_PIECE)
}

/// Copies a region of [`FLOOR`] bytes or more. What is measured then is measured until
/// the deadline; the copy itself knows none.
#[inline(always)]
pub(crate) fn copy<P: Pair>(pair: &mut P, region: Region<'_>, deadline: &Deadline) {
    let Some(costs) = known::known() else {
        return copy_unknown(pair, region, deadline);
    };
    let mut auto = Auto { look: &mut Clock(&costs), costs: &costs, pair, deadline };
    match region.len() < HALVED {
        true => auto.copy(region, false),
        false => auto.copy_halves(region, false),
    }
}

/// Copies as long as nothing is known.
#[cold]
fn copy_unknown<P: Pair>(pair: &mut P, region: Region<'_>, deadline: &Deadline) {
    let copied = ticks_of(|| region.copy());
    // What the helper is at would be measured, too.
    if pair.is_free() {
        known::learn(pair, copied, deadline);
    }
}

/// Source of a piece: memory or a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Cache,
    Memory,
    /// Wherever, but slower than memory: the destination may have had no pages.
    Slow,
}

/// Tells where bytes are, and copies pieces of them as `memcpy` does.
trait Look {
    /// A piece of [`PIECE`] bytes or more at one end.
    fn first_from(&mut self, piece: Region<'_>) -> Origin;

    /// True if a piece that follows another came from memory.
    fn later_from_memory(&mut self, piece: Region<'_>) -> bool;

    /// True if the source, or the destination, is in a cache.
    fn is_cached<const N: usize>(&mut self, probe: Probe<'_, N>) -> bool;
}

struct Clock<'a>(&'a Costs);

impl Look for Clock<'_> {
    fn first_from(&mut self, piece: Region<'_>) -> Origin {
        // Its time would not tell a cache: with what it takes to find the pages it varied by
        // three quarters, and a last-level cache is but twice as fast as memory on some
        // machines. It tells a destination without pages, wherever the source is.
        let (len, cached) = (piece.len(), self.is_cached(piece.probe(probe::END)));
        match ticks_of(|| piece.copy()) {
            ticks if self.0.is_slow(len, ticks) => Origin::Slow,
            _ if cached => Origin::Cache,
            _ => Origin::Memory,
        }
    }

    fn later_from_memory(&mut self, piece: Region<'_>) -> bool {
        let len = piece.len();
        self.0.later_from_memory(len, ticks_of(|| piece.copy()))
    }

    #[inline(always)]
    fn is_cached<const N: usize>(&mut self, probe: Probe<'_, N>) -> bool {
        probe.ticks() < self.0.probe_ticks
    }
}

struct Auto<'a, L, P> {
    look: &'a mut L,
    costs: &'a Costs,
    pair: &'a mut P,
    /// The time limit of what is measured.
    deadline: &'a Deadline,
}

impl<L: Look + Send, P: Pair> Auto<'_, L, P> {
    /// Copies a region; `begins` says that it is known to begin in memory.
    //
    // Inlined up to where it is known that the bytes are in a cache. Of a copy of 1 MiB
    // there each further page of code or data takes a hundredth: this cpu's caches, those
    // of its page tables too, are full of what was copied before.
    #[inline(always)]
    fn copy(&mut self, region: Region<'_>, begins: bool) {
        match region.len() {
            // There would be nothing to gain wherever they are.
            len if len < self.costs.stream_from.min(FLOOR) => region.copy(),
            _ if !self.look.is_cached(region.probe(probe::MIDDLE)) => {
                self.copy_around(region, begins)
            }
            len if len < 2 * FLOOR => copy_pieces(region),
            _ => self.copy_halves(region, begins),
        }
    }

    #[inline(never)]
    fn copy_halves(&mut self, region: Region<'_>, begins: bool) {
        let (half, other) = region.halves();
        self.copy(half, begins);
        self.copy(other, false);
    }

    /// Copies a region whose source's middle is in memory; `begins` as above.
    #[inline(never)]
    fn copy_around(&mut self, region: Region<'_>, begins: bool) {
        let len = region.len();
        self.share_or_copy(region, begins);
        if self.costs.fork_ticks.is_none() {
            // The helper may be awake now.
            known::learn(self.pair, self.costs.later(len), self.deadline);
        }
    }

    fn share_or_copy(&mut self, mut region: Region<'_>, mut begins: bool) {
        let whole = region.len();
        let len = look(whole);
        let wake_ticks = self.wake_ticks();
        let share_from = self.share_from(wake_ticks);
        if whole < self.costs.stream_from.min(share_from.saturating_add(2 * len)) {
            return region.copy();
        }
        // Of a short one neither the start: where the source's middle and its end are in
        // memory, a start in a cache is what this thread copies, and the look costs 2 %.
        begins |= whole < 2 * FLOOR;
        let (rest, last) = region.reborrow().split_at(whole - len);
        let (first, rest) = rest.split_at(if begins { 0 } else { len });
        let lies = rest.footprint();
        // SAFETY: read in `decide` alone, and nobody writes to the rest before that has
        // returned: a helper that comes meanwhile waits for it, see `share::copy_if`.
        let middle_to = unsafe { rest.middle_to() };
        let (look, costs) = (&mut *self.look, self.costs);
        let (mut ends, mut alone) = (false, false);
        let decide = || {
            let end = look.first_from(last);
            let start = if begins { Origin::Memory } else { look.first_from(first) };
            (begins, ends) = (start != Origin::Cache, end != Origin::Cache);
            let slow = [start, end].contains(&Origin::Slow);
            if !(begins && ends) {
                return None;
            }
            // Where both ends had pages to be written to, the middle has, too.
            let backed = !slow || lies.is_backed();
            alone = !backed && whole < TABLES;
            let kept = alone || backed && look.is_cached(middle_to);
            (!kept).then(|| from_memory(costs, whole, backed))
        };
        // Left alone while this thread looks the helper might fall asleep.
        let holds = wake_ticks == 0 && costs.fork_is_nothing(whole);
        let (rest, way) = if holds && rest.len() >= share_from {
            let patience = costs.later(PATIENCE * len);
            match share::copy_if(self.pair, rest, patience, decide) {
                Some(left) => left,
                None => return,
            }
        } else {
            (rest, decide())
        };
        match way {
            Some(copy) if rest.len() >= self.share_from(self.wake_ticks()) => {
                share::copy(self.pair, rest, copy);
            }
            Some(copy) => copy(rest),
            // The ends once more: C libraries copy 1 MiB in one call another way than in
            // three, and it is the kernel's pages that take the time.
            None if alone => region.copy(),
            None if begins || ends => self.copy_halves(rest, begins),
            None => {
                let rest = self.copy_cached(rest);
                self.copy(rest, true);
            }
        }
    }

    /// Bytes from which two threads are faster.
    fn share_from(&self, wake_ticks: u64) -> usize {
        self.costs.share_from(wake_ticks).max(FLOOR - 2 * look(FLOOR))
    }

    fn wake_ticks(&self) -> u64 {
        if self.pair.is_free() { self.pair.wake_ticks() } else { u64::MAX }
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

/// Copies as `memcpy` does, in pieces: C libraries copy large regions another way, which in a cache
/// is no faster and on some processors a fifth slower.
#[inline]
fn copy_pieces(mut region: Region<'_>) {
    while region.len() > 0 {
        let (piece, rest) = region.split_at(LATER_PIECE);
        piece.copy();
        region = rest;
    }
}

/// Copy of bytes from memory, in a copy of `whole` bytes, to a destination that has pages or has
/// none.
fn from_memory<'a>(costs: &Costs, whole: usize, backed: bool) -> fn(Region<'a>) {
    // A page that the kernel gives at the first touch is in a cache then, as it has
    // been cleared.
    if backed && whole >= costs.stream_from { Region::stream } else { Region::copy }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use kumiki_sys::shm::{Anon, Huge, Populate};

    use super::*;
    use crate::costs::LEAST;
    use crate::one_thread::OneThread;

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
        fn first_from(&mut self, piece: Region<'_>) -> Origin {
            assert!(piece.len() >= PIECE);
            let cached = self.is_cached(piece.probe(probe::END));
            self.copy(piece);
            if cached { Origin::Cache } else { Origin::Slow }
        }

        fn later_from_memory(&mut self, piece: Region<'_>) -> bool {
            self.copy(piece)
        }

        fn is_cached<const N: usize>(&mut self, probe: Probe<'_, N>) -> bool {
            self.cached.contains(&probe.start())
        }
    }

    const COSTS: Costs = Costs {
        fork_ticks: Some(1),
        first_ticks: 1,
        later_ticks: 1,
        probe_ticks: 1,
        stream_from: 1 << 19,
    };
    const LEN: usize = 9_000_001;

    /// Copies `len` bytes of which those in `cached` are in a cache, checks
    /// them, and returns the forks and the bytes looked at: cached ones, others.
    fn copied(len: usize, cached: Range<usize>, wake_ticks: u64) -> (usize, [usize; 2]) {
        let from: Vec<u8> = (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        let mut to = vec![1; len];
        let start = from.as_ptr().addr();
        let cached = start + cached.start..start + cached.end;
        let mut look = Model { cached, looked: [0; 2] };
        let mut pair = OneThread { wake_ticks, ..OneThread::default() };
        let region = Region::new(&mut to, &from).unwrap();
        Auto { look: &mut look, costs: &COSTS, pair: &mut pair, deadline: &Deadline::NEVER }
            .copy(region, false);
        assert!(to == from, "{len} bytes");
        (pair.forks, look.looked)
    }

    #[test]
    fn lines_tell_where_a_piece_is_unless_it_is_slow() {
        let (mut to, from) = (vec![0; PIECE], vec![1; PIECE]);
        let mut first_from = |first_ticks, probe_ticks| {
            let costs = Costs { first_ticks, probe_ticks, ..COSTS };
            Clock(&costs).first_from(Region::new(&mut to, &from).unwrap())
        };
        assert_eq!(first_from(u64::MAX, 0), Origin::Memory);
        assert_eq!(first_from(0, 0), Origin::Slow);
        assert_eq!(first_from(u64::MAX, u64::MAX), Origin::Cache);
        assert_eq!(first_from(0, u64::MAX), Origin::Slow);
        assert!(to == from);
    }

    #[test]
    fn what_is_in_memory_is_shared_after_a_piece_or_two() {
        for (len, pieces) in [(FLOOR, 1), (FLOOR + 1, 1), (3_000_000, 2), (LEN, 2)] {
            assert_eq!(copied(len, 0..0, 0), (1, [0, pieces * look(len)]));
        }
    }

    #[test]
    fn what_is_in_a_cache_is_not_shared() {
        for len in [0, LEAST - 1, LEAST, LEAST + 1, FLOOR, FLOOR + 1, LEN] {
            assert_eq!(copied(len, 0..len, 0), (0, [0, 0]));
        }
    }

    #[test]
    fn for_what_is_in_a_cache_nobody_asks_after_the_helper() {
        let (mut to, from) = (vec![0; LEN], vec![1; LEN]);
        let mut look = Model { cached: 0..usize::MAX, looked: [0; 2] };
        let mut pair = OneThread::default();
        let region = Region::new(&mut to, &from).unwrap();
        Auto { look: &mut look, costs: &COSTS, pair: &mut pair, deadline: &Deadline::NEVER }
            .copy(region, false);
        assert!(to == from);
        assert_eq!(pair.asked.into_inner(), 0);
    }

    #[test]
    fn what_is_too_short_to_gain_by_anything_is_not_looked_at() {
        let costs = Costs { stream_from: 3 << 20, ..COSTS };
        let (mut to, from) = (vec![0; FLOOR - 1], vec![1; FLOOR - 1]);
        /// Nobody asks it.
        struct Blind;
        impl Look for Blind {
            fn first_from(&mut self, _: Region<'_>) -> Origin {
                unreachable!()
            }
            fn later_from_memory(&mut self, _: Region<'_>) -> bool {
                unreachable!()
            }
            fn is_cached<const N: usize>(&mut self, _: Probe<'_, N>) -> bool {
                unreachable!()
            }
        }
        let region = Region::new(&mut to, &from).unwrap();
        let pair = &mut OneThread::default();
        Auto { look: &mut Blind, costs: &costs, pair, deadline: &Deadline::NEVER }
            .copy(region, false);
        assert!(to == from);
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
                let (forks, [_, others]) = copied(LEN, cached, 0);
                // Where it lies a megabyte at most is taken for the other kind,
                // or goes by `memcpy` unseen.
                assert!(others < FLOOR, "{others} from memory were looked at, border {border}");
                assert!(forks > 0 || LEN - len < 2 * FLOOR, "never shared, border {border}");
            }
        }
    }

    #[test]
    fn a_middle_that_is_in_a_cache_is_not_shared() {
        for len in [FLOOR, 2 * FLOOR, LEN] {
            let (forks, [_, others]) = copied(len, len / 8..len - len / 8, 1);
            // At each of the two borders, or nowhere.
            assert!(others < FLOOR && forks <= 2, "{others} of {len}, {forks} forks");
            assert!(forks == 0 || len == LEN);
        }
    }

    #[test]
    fn a_destination_without_pages_is_shared_if_it_is_large() {
        let cases = [(LEN, 1, 1), (LEN, u64::MAX, 0), (TABLES - 1, 1, 0), (TABLES - 1, 0, 1)];
        for (len, wake_ticks, forks) in cases {
            let mut pair = OneThread { wake_ticks, ..OneThread::default() };
            let from = vec![1_u8; len];
            let memory = Anon::new(len, Huge::Never, Populate::OnTouch).unwrap();
            // SAFETY: just mapped, of that length, and nobody else knows it.
            let to = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), len) };
            let mut look = Model { cached: 0..0, looked: [0; 2] };
            let region = Region::new(to, &from).unwrap();
            Auto { look: &mut look, costs: &COSTS, pair: &mut pair, deadline: &Deadline::NEVER }
                .copy(region, false);
            assert!(*to == from);
            assert_eq!((pair.forks, look.looked), (forks, [0, 2 * super::look(len)]));
        }
    }

    #[test]
    fn a_helper_that_has_left_is_asked_again() {
        let (mut to, from) = (vec![0; LEN], vec![1; LEN]);
        let mut look = Model { cached: 0..0, looked: [0; 2] };
        let mut pair = OneThread { helper_first: true, ..OneThread::default() };
        let region = Region::new(&mut to, &from).unwrap();
        Auto { look: &mut look, costs: &COSTS, pair: &mut pair, deadline: &Deadline::NEVER }
            .copy(region, false);
        assert!(to == from);
        assert_eq!((pair.forks, look.looked), (2, [0, 2 * super::look(LEN)]));
    }

    #[test]
    fn memory_between_caches_is_found_when_it_is_reached() {
        let mut pair = OneThread::default();
        let (mut to, from) = (vec![2; LEN], vec![1; LEN]);
        /// Memory from the third megabyte to the fourth last.
        struct Between(usize);
        impl Look for Between {
            fn first_from(&mut self, piece: Region<'_>) -> Origin {
                if self.later_from_memory(piece) { Origin::Memory } else { Origin::Cache }
            }

            fn later_from_memory(&mut self, piece: Region<'_>) -> bool {
                let at = piece.footprint().from - self.0;
                piece.copy();
                (2 << 20..5 << 20).contains(&at)
            }

            fn is_cached<const N: usize>(&mut self, probe: Probe<'_, N>) -> bool {
                // That of the destination is in none.
                let at = probe.start().wrapping_sub(self.0);
                at < LEN && !(2 << 20..5 << 20).contains(&at)
            }
        }
        let mut look = Between(from.as_ptr().addr());
        let region = Region::new(&mut to, &from).unwrap();
        Auto { look: &mut look, costs: &COSTS, pair: &mut pair, deadline: &Deadline::NEVER }
            .copy(region, false);
        assert!(to == from && pair.forks > 0);
    }
}
