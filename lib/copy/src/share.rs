//! A region that two threads copy together, part by part.
//!
//! Two fixed halves would make the caller wait for whatever keeps the helper
//! from its half: a wake, another process on its cpu, a slower core. Parts are
//! claimed instead, by one atomic addition each, and the caller never waits
//! for more than one part (but for a helper that has begun and lost its cpu). With a
//! helper that never comes it copies them all.
//!
//! A helper may be asked to come before it is known whether there is anything for it:
//! the caller looks where the bytes are, the helper waits, and need not be woken then.
//!
//! # Protocol
//!
//! ```text
//! caller:  left? ── no ──▶ decided = a way, or NOTHING ──▶ a way: claims parts
//!            └──── yes ──▶ the region comes back
//! helper:  decided? ── a way ────▶ claims parts
//!            │  ├───── NOTHING ──▶ ends
//!            │  └───── not yet ──▶ looks again
//!            └ patience is over ─▶ left = true, ends
//! ```
//!
//! - Only the caller writes `decided`, once. So it knows by itself whether the region
//!   comes back; a helper cannot change that.
//! - `left` is a hint. A caller that has missed it copies all parts alone.
//! - A part is whose addition gave its number. A helper that comes late finds what was
//!   decided, and the parts that are left.
//! - Who has the region back has it alone: the join is behind both sides.

use std::marker::PhantomData;
use std::{mem, ptr};

use crate::costs::ticks;
use crate::pair::Pair;
use crate::primitive::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, spin_loop};
use crate::region::Region;

/// Bytes of a part. A claim moves a cache line between the cores, some 0.1 to
/// 0.6 µs, which should be nothing beside copying the part (20 µs and more). Row `copy_cold`.
const PART: usize = 1 << 20;

/// Function that copies a part.
type Copy<'a> = fn(Region<'a>);

/// The decision that nothing is copied together. No function is there.
const NOTHING: *mut () = ptr::without_provenance_mut(1);

/// Shares in one line, which the helper fetches once the request has come: a second line would be a
/// second way between the cores.
#[repr(align(64))]
struct Shares<'a> {
    region: Region<'a>,
    parts: usize,
    next: AtomicUsize,
    /// The way, or [`NOTHING`]; null while the caller looks where the bytes are.
    decided: AtomicPtr<()>,
    way: PhantomData<Copy<'a>>,
    /// The helper has waited for long enough. A hint.
    left: AtomicBool,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Shares>() == 64);

// SAFETY: of the region a shared reference reaches only the parts that `claim` gives,
// each to one caller; a `Region` may be sent. The other fields are Sync themselves.
unsafe impl Sync for Shares<'_> {}

impl<'a> Shares<'a> {
    /// An even number of parts, so that two equal threads end together.
    fn new(region: Region<'a>) -> Self {
        let parts = (region.len() / PART / 2 * 2).max(2);
        Shares {
            region,
            parts,
            next: AtomicUsize::new(0),
            decided: AtomicPtr::new(ptr::null_mut()),
            way: PhantomData,
            left: AtomicBool::new(false),
        }
    }

    /// A part that nobody else has, and whether it is the last one.
    fn claim(&self) -> Option<(Region<'a>, bool)> {
        // Relaxed: only the count is agreed upon; the bytes are handed over by
        // the fork and the join.
        let part = self.next.fetch_add(1, Ordering::Relaxed);
        let (start, end) = (self.bound(part)?, self.bound(part + 1)?);
        // SAFETY: the counter gives each number once (two threads cannot make
        // it wrap), and parts of different numbers have no byte in common.
        let region = unsafe { self.region.part(start, end - start) };
        Some((region, part + 1 == self.parts))
    }

    /// Beginning of a part: on a page of the destination, so that no line and no page that is
    /// written is divided.
    fn bound(&self, part: usize) -> Option<usize> {
        const PAGE: usize = 4096;
        let len = self.region.len();
        match part {
            part if part > self.parts => None,
            part if part == self.parts => Some(len),
            part => {
                let at = len / self.parts * part;
                Some(at.saturating_sub((self.region.footprint().to + at) % PAGE))
            }
        }
    }

    fn copy_all(&self, copy: Copy<'a>) {
        while let Some((part, last)) = self.claim() {
            copy(part);
            if last {
                // Asking once more would fetch the line for nothing.
                break;
            }
        }
    }

    /// The caller, once: how the parts are copied, or that they are not.
    fn say(&self, decision: Option<Copy<'a>>) {
        let decided = decision.map_or(NOTHING, |copy| copy as *mut ());
        // Release, partner of the load in `said`: what this thread did before is done
        // before the helper copies.
        self.decided.store(decided, Ordering::Release);
    }

    /// The copy that the caller has named, if any.
    fn said(&self) -> Option<Option<Copy<'a>>> {
        // Acquire, partner of the store in `say`.
        let decided = self.decided.load(Ordering::Acquire);
        if decided.is_null() {
            return None;
        }
        if decided == NOTHING {
            return Some(None);
        }
        // SAFETY: `say` stores nothing else but functions of this type.
        Some(Some(unsafe { mem::transmute::<*mut (), Copy<'a>>(decided) }))
    }

    /// The caller's side. Without a helper that waits nothing is copied.
    fn decide(&self, decision: Option<Copy<'a>>) {
        // Relaxed: a hint, behind which there is nothing.
        if !self.left.load(Ordering::Relaxed) {
            self.say(decision);
            decision.iter().for_each(|&copy| self.copy_all(copy));
        }
    }

    /// The helper's side, until so many ticks have passed: pages may have to be made
    /// while the caller looks, or it may have lost its cpu.
    fn follow(&self, patience: u64) {
        let begin = ticks();
        for looks in 1_u64.. {
            if let Some(decision) = self.said() {
                return decision.iter().for_each(|&copy| self.copy_all(copy));
            }
            // For loom no time passes: there patience is so many looks.
            let waited = if cfg!(loom) { looks } else { ticks().wrapping_sub(begin) };
            if waited > patience {
                return self.left.store(true, Ordering::Relaxed);
            }
            spin_loop();
        }
    }
}

/// Copies `region` with both threads, each part by `copy`.
pub(crate) fn copy<'a, P: Pair>(pair: &mut P, region: Region<'a>, copy: Copy<'a>) {
    let shares = Shares::new(region);
    shares.say(Some(copy));
    pair.both(|| shares.copy_all(copy), || shares.follow(0));
}

/// Copies if `decide` says how; the helper waits while it runs, for so many ticks at
/// most. If it says nothing, or the helper has left, nothing is copied, and the region
/// comes back with what was said.
pub(crate) fn copy_if<'a, P: Pair>(
    pair: &mut P,
    region: Region<'a>,
    patience: u64,
    decide: impl FnOnce() -> Option<Copy<'a>> + Send,
) -> Option<(Region<'a>, Option<Copy<'a>>)> {
    let shares = Shares::new(region);
    let mut way = None;
    let ours = || {
        way = decide();
        shares.decide(way);
    };
    pair.both(ours, || shares.follow(patience));
    match shares.said() {
        Some(Some(_)) => None,
        _ => Some((shares.region, way)),
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;
    use crate::one_thread::OneThread;

    #[test]
    fn the_parts_are_the_whole() {
        for len in [0, 1, 4095, 8191, 8192, 100_000, PART * 2, PART * 5 + 77] {
            for skew in [0, 1, 64, 4095] {
                let (mut to, from) = (vec![0_u8; skew + len], vec![3_u8; len]);
                let shares = Shares::new(Region::new(&mut to[skew..], &from).unwrap());
                let parts: Vec<_> = std::iter::from_fn(|| shares.claim())
                    .map(|(part, _)| (part.footprint().to, part.len()))
                    .collect();
                assert_eq!(parts.iter().map(|part| part.1).sum::<usize>(), len);
                assert_eq!(parts.len() % 2, 0, "{len}: {parts:?}");
                assert!(parts.iter().all(|part| part.1 < 2 * PART), "{len}: {parts:?}");
                let start = to[skew..].as_ptr().addr();
                let on_pages = |&(to, _): &(usize, usize)| to == start || to % 4096 == 0;
                assert!(parts.iter().all(on_pages), "{len} at {start:#x}: {parts:x?}");
            }
        }
    }

    /// Two threads, of which the helper begins before the caller decides.
    struct Threads;

    impl Pair for Threads {
        fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
            let begun = Barrier::new(2);
            thread::scope(|threads| {
                threads.spawn(|| {
                    begun.wait();
                    theirs();
                });
                begun.wait();
                ours();
            });
        }
    }

    const LEN: usize = PART * 2 + 77;

    #[test]
    fn a_helper_that_waits_copies_one_of_two_parts() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        /// Begins when somebody else has begun the other part.
        fn copy_with_the_other(part: Region<'_>) {
            BEGUN.fetch_add(1, Ordering::Relaxed);
            while BEGUN.load(Ordering::Relaxed) < 2 {
                thread::yield_now();
            }
            part.copy();
        }
        let (mut to, from) = (vec![0_u8; LEN], vec![3_u8; LEN]);
        let region = Region::new(&mut to, &from).unwrap();
        let copy: Copy<'_> = copy_with_the_other;
        assert!(copy_if(&mut Threads, region, u64::MAX, || Some(copy)).is_none());
        assert!(to == from);
    }

    #[test]
    fn without_a_decision_or_a_helper_nothing_is_copied() {
        fn check<P: Pair>(mut pair: P, patience: u64, decision: Option<Copy<'_>>) {
            let (mut to, from) = (vec![0_u8; LEN], vec![3_u8; LEN]);
            let region = Region::new(&mut to, &from).unwrap();
            let way = decision.map(|_| Region::copy as Copy<'_>);
            let (rest, said) = copy_if(&mut pair, region, patience, || way).unwrap();
            assert_eq!((rest.len(), said.is_some()), (LEN, decision.is_some()));
            assert!(to == [0; LEN], "patience {patience}");
        }
        check(Threads, u64::MAX, None);
        let helper_first = || OneThread { helper_first: true, ..OneThread::default() };
        check(helper_first(), 1000, None);
        check(helper_first(), 1000, Some(Region::copy));
    }

    #[test]
    fn a_caller_whose_helper_never_comes_copies_all() {
        let from: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 253) as u8).collect();
        let mut to = vec![0_u8; from.len()];
        let region = Region::new(&mut to, &from).unwrap();
        copy(&mut OneThread::default(), region, Region::stream);
        assert!(to == from);
    }
}
