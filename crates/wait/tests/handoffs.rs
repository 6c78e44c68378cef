//! No wake-up is lost, over a million handoffs; `cargo xtask stress wait` goes
//! through a hundred million.

#![cfg(not(loom))]

#[path = "../examples/handoffs.rs"]
mod handoffs;

#[test]
fn a_million_handoffs() {
    let seed = fastrand::u64(..);
    let counts = handoffs::run(1_000_000, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    // Both ways to end a wait were taken; otherwise nothing has been tried.
    for side in counts {
        assert!(side.spun + side.slept > 0 && side.slept > 0, "{counts:?}");
        assert_eq!(side.dozed, 0);
    }
}
