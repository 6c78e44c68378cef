//! A region that two threads copy together, part by part.
//!
//! Two fixed halves would make the caller wait for whatever keeps the helper
//! from its half: a wake, another process on its cpu, a slower core. Parts are
//! claimed instead, by one atomic addition each, and the caller never waits
//! for more than one part. With a helper that never comes it copies them all.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Pair;
use super::region::Region;

/// Bytes of a part. A claim moves a cache line between the cores, some 0.1 to
/// 0.6 µs, which should be nothing beside copying the part (20 µs and more).
const PART: usize = 1 << 20;

/// In one line, which the helper fetches once the request has come: a second
/// line would be a second way between the cores.
#[repr(align(64))]
struct Shares<'a> {
    region: Region<'a>,
    parts: usize,
    next: AtomicUsize,
}

// SAFETY: through a shared reference only `claim` is reached, which gives each
// part to one caller; a `Region` may be sent.
unsafe impl Sync for Shares<'_> {}

impl<'a> Shares<'a> {
    /// An even number of parts, so that two equal threads end together.
    fn new(region: Region<'a>) -> Self {
        let parts = (region.len() / PART / 2 * 2).max(2);
        Shares { region, parts, next: AtomicUsize::new(0) }
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

    /// Where a part begins: on a page of the destination, so that no line and no
    /// page that is written is divided.
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

    fn copy_all(&self, copy: fn(Region<'a>)) {
        while let Some((part, last)) = self.claim() {
            copy(part);
            if last {
                // Asking once more would fetch the line for nothing.
                break;
            }
        }
    }
}

/// Copies `region` with both threads, each part by `copy`.
pub(super) fn copy<'a, P: Pair>(pair: &mut P, region: Region<'a>, copy: fn(Region<'a>)) {
    let shares = Shares::new(region);
    pair.both(|| shares.copy_all(copy), || shares.copy_all(copy));
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_caller_whose_helper_never_comes_copies_all() {
        struct Alone;
        impl Pair for Alone {
            fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
                ours();
                theirs();
            }
        }
        let from: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 253) as u8).collect();
        let mut to = vec![0_u8; from.len()];
        copy(&mut Alone, Region::new(&mut to, &from).unwrap(), Region::stream);
        assert!(to == from);
    }
}
