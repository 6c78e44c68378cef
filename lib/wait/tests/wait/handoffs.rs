//! No wake-up is lost, over a million handoffs; `cargo xtask stress wait` goes
//! through a hundred million.

#[path = "../../examples/handoffs.rs"]
mod example;

#[test]
fn a_million_handoffs() {
    let seed = fastrand::u64(..);
    let seen = example::run(1_000_000, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    // Otherwise nothing has been tried.
    for side in &seen {
        assert!(side.counts.slept > 0, "{seen:?}");
        assert_eq!(side.counts.dozed, 0);
    }
}
