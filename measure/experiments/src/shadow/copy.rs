//! Figure 13: copying memory that is in no cache, by every method.

use kumiki_copy::{Method, copy, prepare};
use kumiki_measure::case::{Case, Choice, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_shadow::Threshold;
use kumiki_sys::cache::evict;

use super::threshold::LOOK;
use super::{Helped, waiting};

const ABOUT: &str = "copy of memory that is in no cache, its pages mapped: the C library's memcpy \
                     on one cpu, and with a helper that spins prefetch, blocks, halves, auto; halves with \
                     one that sleeps after the paper's threshold of 1,000 looks";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Sizes with the shortest run that includes them.
const SIZES: [(u64, Level); 12] = [
    (KIB, Level::Default),
    (4 * KIB, Level::Default),
    (16 * KIB, Level::Quick),
    (64 * KIB, Level::Default),
    (256 * KIB, Level::Quick),
    (MIB, Level::Default),
    (2 * MIB, Level::Full),
    (4 * MIB, Level::Quick),
    (8 * MIB, Level::Full),
    (16 * MIB, Level::Default),
    (32 * MIB, Level::Full),
    (64 * MIB, Level::Full),
];

/// The ways; `None` is the C library alone.
const WAYS: [(&str, Option<Method>, Level); 7] = [
    ("libc", None, Level::Quick),
    ("prefetch", Some(Method::Prefetch), Level::Default),
    ("block_256", Some(Method::Block(256)), Level::Default),
    ("block_1024", Some(Method::Block(1024)), Level::Default),
    ("block_4096", Some(Method::Block(4096)), Level::Default),
    ("split", Some(Method::Split), Level::Quick),
    ("auto", Some(Method::Auto), Level::Quick),
];

/// The paper's threshold in all of its copies, 1,000 looks, with the least way to show it.
const AS_THE_PAPER: (&str, Option<Method>, Level) =
    ("split_1000", Some(Method::Split), Level::Full);
const LOOKS_1000: Threshold = Threshold::Ticks(1_000 * LOOK);

/// Source and destination of the copies of one sample together take about this
/// much, or one copy.
const SAMPLE_BYTES: usize = 1 << 20;
const PAGE: usize = 4096;

pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = Vec::new();
    // The figure is the copy's, not that of a wake: it spins.
    let ways = WAYS.map(|way| (way, Threshold::Infinite));
    for ((way, method, level), threshold) in ways.into_iter().chain([(AS_THE_PAPER, LOOKS_1000)]) {
        for (bytes, sizes_level) in sizes(choice) {
            let setup =
                move |place: &Place| Copies::new(place, (method, threshold), bytes as usize);
            let case = Case::new("shadow.copy", ABOUT, setup).with("way", way).with("bytes", bytes);
            let case = if method.is_some() { case.two_cpus() } else { case };
            let asks = 2 * Region::len(bytes as usize) as u64;
            cases.push(case.bandwidth(bytes).asks(asks).level(level.max(sizes_level)));
        }
    }
    cases
}

/// Sizes that a person chose, or the sweep's own; nothing cannot be copied in a time.
fn sizes(choice: &Choice) -> Vec<(u64, Level)> {
    let Some(chosen) = &choice.sizes else { return SIZES.to_vec() };
    let mut sizes: Vec<_> =
        chosen.iter().filter(|&&bytes| bytes > 0).map(|&bytes| (bytes, Level::Quick)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

struct Copies {
    to: Region,
    from: Region,
    method: Option<Method>,
    helped: Option<Helped>,
}

impl Copies {
    fn new(
        place: &Place,
        (method, threshold): (Option<Method>, Threshold),
        bytes: usize,
    ) -> Result<Self> {
        let helper = || Helped::new(place, waiting(threshold));
        let mut helped = method.map(|_| helper()).transpose()?;
        if let Some(helped) = &mut helped {
            prepare(&mut helped.shadow);
        }
        Ok(Copies { to: Region::new(bytes, 1), from: Region::new(bytes, 2), method, helped })
    }
}

impl Workload for Copies {
    /// Each copy has its own source and destination, evicted before the clock
    /// starts.
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let Self { to, from, method, helped } = self;
        let iterations = iterations as usize;
        evict(to.places(iterations));
        evict(from.places(iterations));
        if let Some(helped) = helped {
            helped.fork_join();
        }
        meter.time(|| {
            for i in 0..iterations {
                let (to, from) = (to.place_mut(i), from.place(i));
                match (&mut *helped, *method) {
                    (Some(helped), Some(method)) => copy(&mut helped.shadow, to, from, method)
                        .map_err(|error| Error::Invalid(error.to_string()))?,
                    _ => to.copy_from_slice(from),
                }
            }
            Ok(())
        })
    }

    fn max_batch(&self) -> Option<u64> {
        Some(Region::count(self.to.bytes) as u64)
    }
}

/// Places of equal size, each at the start of a page, with a page between them
/// so that a copy does not prefetch the next one's.
struct Region {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Region {
    fn stride(bytes: usize) -> usize {
        bytes.next_multiple_of(PAGE) + PAGE
    }

    fn count(bytes: usize) -> usize {
        (SAMPLE_BYTES / 2 / Self::stride(bytes)).max(1)
    }

    fn len(bytes: usize) -> usize {
        Self::count(bytes) * Self::stride(bytes) + PAGE
    }

    /// Written, so that every page is there.
    fn new(bytes: usize, value: u8) -> Self {
        let memory = vec![value; Self::len(bytes)];
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Region { memory, start, bytes }
    }

    /// The first `count` places and what is between.
    fn places(&self, count: usize) -> &[u8] {
        &self.memory[self.start..][..count * Self::stride(self.bytes)]
    }

    fn place(&self, i: usize) -> &[u8] {
        &self.memory[self.start + i * Self::stride(self.bytes)..][..self.bytes]
    }

    fn place_mut(&mut self, i: usize) -> &mut [u8] {
        &mut self.memory[self.start + i * Self::stride(self.bytes)..][..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_sample_is_there_and_apart() {
        for bytes in [1, 1000, 4096, 100_000, 3 << 20] {
            let mut region = Region::new(bytes, 1);
            let count = Region::count(bytes);
            (0..count).for_each(|i| region.place_mut(i).fill(2));
            assert_eq!(region.place(0).as_ptr().align_offset(PAGE), 0);
            let written = region.places(count).iter().filter(|&&byte| byte == 2).count();
            assert_eq!(written, bytes * count, "{bytes}");
        }
    }
}
