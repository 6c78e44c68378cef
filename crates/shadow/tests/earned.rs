//! When `Auto` measures the machine: a process of its own, as that is once.

use kumiki_shadow::copy::{Method, Pair, copy, prepare};

/// Counts the forks.
struct Counted(u32);

impl Pair for Counted {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        self.0 += 1;
        ours();
        theirs();
    }
}

#[test]
fn nothing_is_measured_before_it_has_been_earned_and_nothing_twice() {
    const MIB: usize = 1 << 20;
    let from: Vec<u8> = (0..32 * MIB).map(|at| (at % 253) as u8).collect();
    let mut to = vec![0; from.len()];
    let mut pair = Counted(0);
    let mut forks = |to: &mut [u8], from: &[u8]| {
        let before = pair.0;
        to.fill(0);
        copy(&mut pair, to, from, Method::Auto).expect("of one length");
        assert!(to == from);
        pair.0 - before
    };
    // Small ones are neither measured nor counted.
    for _ in 0..33 {
        assert_eq!(forks(&mut to[1..MIB], &from[1..MIB]), 0);
    }
    for _ in 0..31 {
        assert_eq!(forks(&mut to[..MIB], &from[..MIB]), 0);
    }
    // A copy that goes past the border: 1 MiB plainly, then it is measured.
    let measured = forks(&mut to, &from);
    assert!(measured >= 16, "{measured} forks");
    // At most one for each part of it.
    assert!(forks(&mut to, &from) < 16);
    prepare(&mut pair);
    assert!(pair.0 < measured + 16 + 1, "measured again");
}
