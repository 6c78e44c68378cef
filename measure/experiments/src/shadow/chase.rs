//! A helper in the proper sense (the paper's section 5): it does nothing of the work, but
//! follows a chain of records ahead of main, so that they are near when main comes.

use std::hint::black_box;

use kumiki_measure::Result;
use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_shadow::Threshold;

use super::{Helped, waiting};

const ABOUT: &str = "a stretch of 1,024 records of a chain scattered over 64 MiB, with some work \
                     on each: alone (plain), or with a shadow that reads the next stretch ahead";

/// A record of one cache line.
#[repr(align(64))]
struct Record {
    next: usize,
    value: u64,
}

const RECORDS: usize = 1 << 20;
/// Records of a stretch: their lines fit a second-level cache.
const STRETCH: usize = 1024;
/// Work on a record: about as long as it takes to come from memory.
const ROUNDS: u64 = 32;

pub(super) fn cases() -> Vec<Case> {
    let case = |way: &str| {
        let helps = way == "shadow";
        let setup = move |place: &Place| Chase::new(place, helps);
        let case = Case::new("shadow.chase", ABOUT, setup).with("way", way).level(Level::Default);
        let case = case.asks((RECORDS * size_of::<Record>()) as u64);
        if helps { case.two_cpus() } else { case }
    };
    ["plain", "shadow"].map(case).into()
}

struct Chase {
    records: Vec<Record>,
    helped: Option<Helped>,
    /// Main's place in the chain.
    at: usize,
    /// Up to where the helper has read.
    ahead: usize,
}

impl Chase {
    fn new(place: &Place, helps: bool) -> Result<Self> {
        let helper = || Helped::new(place, waiting(Threshold::Infinite));
        let helped = helps.then(helper).transpose()?;
        let records = scattered(RECORDS);
        let ahead = touch(&records, 0);
        Ok(Chase { records, helped, at: 0, ahead })
    }

    /// Works on a stretch.
    fn stretch(&mut self) -> u64 {
        let Chase { records, helped, at, ahead } = self;
        let Some(helped) = helped else {
            let (end, sum) = follow(records, *at);
            *at = end;
            return sum;
        };
        let (here, from) = (*at, *ahead);
        let ((end, sum), reached) =
            helped.shadow.both(|| follow(records, here), || touch(records, from));
        (*at, *ahead) = (end, reached);
        sum
    }
}

impl Workload for Chase {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| {
            for _ in 0..iterations {
                black_box(self.stretch());
            }
            Ok(())
        })
    }
}

/// Work on a stretch from `at` on: where it ends, and the result.
fn follow(records: &[Record], mut at: usize) -> (usize, u64) {
    let mut sum = 0_u64;
    for _ in 0..STRETCH {
        let record = &records[at];
        let worked = |value: u64, round| value.rotate_left(5) ^ black_box(round);
        sum ^= (0..ROUNDS).fold(record.value, worked);
        at = record.next;
    }
    (at, sum)
}

/// Brings a stretch near: reading the links is enough.
fn touch(records: &[Record], at: usize) -> usize {
    (0..STRETCH).fold(at, |at, _| black_box(records[at].next))
}

/// A chain through all records in no order that a prefetcher knows: a linear congruence
/// of full period (Hull and Dobell) for a power of two.
fn scattered(count: usize) -> Vec<Record> {
    let next = |i: usize| i.wrapping_mul(5).wrapping_add(0x9e37_79b1) % count;
    (0..count).map(|i| Record { next: next(i), value: i as u64 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_meets_each_record_once_and_both_ways_work_alike() {
        let records = scattered(4 * STRETCH);
        let mut met = vec![false; records.len()];
        let end = (0..records.len()).fold(0, |at, _| {
            assert!(!std::mem::replace(&mut met[at], true), "{at} twice");
            records[at].next
        });
        assert_eq!(end, 0);
        assert_eq!(touch(&records, 0), follow(&records, 0).0);
    }
}
