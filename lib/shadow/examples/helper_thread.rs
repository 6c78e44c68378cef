//! A helper in the proper sense: it does nothing of the work itself, but asks
//! for the memory that the main thread will need next.
//!
//! The main thread follows a chain of records scattered over memory and works on
//! each; the helper follows the same chain ahead of it, so that the records are
//! in a cache near the main thread when it comes. It pays where the two share a
//! core (SMT). Between two cores of which each has a second-level cache of its
//! own a line must still travel: on the one machine of that kind where this was
//! run, that took as long as coming from memory, and nothing was gained.

use std::hint::black_box;
use std::time::Instant;

use kumiki_shadow::Shadow;

/// A record of one cache line.
#[repr(align(64))]
struct Record {
    next: usize,
    value: u64,
}

const RECORDS: usize = 1 << 20;
/// Links that the helper is sent ahead.
const AHEAD: usize = 4096;

fn main() {
    let records = scattered();
    let mut shadow = Shadow::create().unwrap_or_else(|error| {
        eprintln!("without a helper: {error}");
        Shadow::inline()
    });
    for round in 0..3 {
        let start = Instant::now();
        let alone = follow(&records, 0, RECORDS).1;
        let alone_ns = start.elapsed().as_nanos() / RECORDS as u128;

        let start = Instant::now();
        let helped = with_helper(&mut shadow, &records);
        let helped_ns = start.elapsed().as_nanos() / RECORDS as u128;
        assert_eq!(alone, helped);
        println!("round {round}: alone {alone_ns} ns a record, with a helper {helped_ns} ns");
    }
}

/// Works on the whole chain; the helper is always one stretch ahead.
fn with_helper(shadow: &mut Shadow, records: &[Record]) -> u64 {
    let (mut at, mut ahead, mut sum) = (0, touch(records, 0), 0);
    for _ in 0..RECORDS / AHEAD {
        let stretch = (at, ahead);
        let ((end, part), reached) =
            shadow.both(|| follow(records, stretch.0, AHEAD), || touch(records, stretch.1));
        (at, ahead) = (end, reached);
        sum ^= part;
    }
    sum
}

/// Work on `count` records from `at` on: where it ends, and the result.
fn follow(records: &[Record], mut at: usize, count: usize) -> (usize, u64) {
    let mut sum = 0_u64;
    for _ in 0..count {
        let record = &records[at];
        let mut value = record.value;
        for round in 0..32 {
            value = value.rotate_left(5) ^ black_box(round);
        }
        sum ^= value;
        at = record.next;
    }
    (at, sum)
}

/// Brings a stretch of the chain near: reading the link is enough.
fn touch(records: &[Record], mut at: usize) -> usize {
    for _ in 0..AHEAD {
        at = black_box(records[at].next);
    }
    at
}

/// A chain through all records in no order that a prefetcher knows.
fn scattered() -> Vec<Record> {
    // A linear congruence of full period (Hull and Dobell): each is met once.
    let step = 0x9e37_79b1_usize;
    (0..RECORDS)
        .map(|i| Record { next: (i.wrapping_mul(5).wrapping_add(step)) % RECORDS, value: i as u64 })
        .collect()
}
