//! How `Auto` learns of the machine: a process of its own, as that is once.

use std::time::{Duration, Instant};

use kumiki_copy::{Method, Pair, copy, prepare};
use kumiki_sys::cache::evict;

use crate::child::in_a_child;

/// Counts the forks of nothing; no helper ever answers one.
struct Counted(u32);

impl Pair for Counted {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        self.0 += u32::from(size_of_val(&ours) == 0);
        ours();
        theirs();
    }
}

#[test]
fn copies_learn_little_by_little_and_nothing_twice() {
    in_a_child("earned::copies_learn_little_by_little_and_nothing_twice", learn);
}

#[test]
fn cold_copies_learn_too() {
    in_a_child("earned::cold_copies_learn_too", || {
        let from = vec![7; 8 << 20];
        let mut to = vec![0; from.len()];
        let mut pair = Counted(0);
        let start = Instant::now();
        while pair.0 < 1000 {
            evict(&from);
            copy(&mut pair, &mut to, &from, Method::Cold).expect("of one length");
            assert!(start.elapsed() < Duration::from_secs(120), "{} forks", pair.0);
        }
        assert!(to == from);
        copy(&mut pair, &mut to, &from, Method::Cold).expect("of one length");
        assert_eq!(pair.0, 1000, "measured again");
    });
}

fn learn() {
    const MIB: usize = 1 << 20;
    let from: Vec<u8> = (0..8 * MIB).map(|at| (at % 253) as u8).collect();
    let mut to = vec![0; from.len()];
    let mut pair = Counted(0);
    let mut forks = |to: &mut [u8], from: &[u8]| {
        let before = pair.0;
        to.fill(0);
        copy(&mut pair, to, from, Method::Auto).expect("of one length");
        assert!(to == from);
        pair.0 - before
    };
    // Memory comes first, and takes more than that.
    assert_eq!(forks(&mut to[1..MIB], &from[1..MIB]), 0);
    for _ in 0..3 {
        assert_eq!(forks(&mut to[..MIB], &from[..MIB]), 0);
    }
    // A thousand forks are tried, some microseconds of them with each copy from memory.
    let start = Instant::now();
    while pair.0 < 1000 {
        evict(&from);
        copy(&mut pair, &mut to, &from, Method::Auto).expect("of one length");
        assert!(start.elapsed() < Duration::from_secs(120), "{} forks", pair.0);
    }
    assert!(to == from);
    copy(&mut pair, &mut to, &from, Method::Auto).expect("of one length");
    prepare(&mut pair);
    assert_eq!(pair.0, 1000, "measured again");
}
