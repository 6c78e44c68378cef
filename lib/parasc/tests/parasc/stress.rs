//! No request is lost, made twice or answered wrongly, over a million;
//! `cargo xtask stress parasc` goes through a hundred million.

#[allow(clippy::duplicate_mod, reason = "it has the threads that other tests have, too")]
#[path = "../../examples/stress/main.rs"]
mod example;

use std::sync::atomic::Ordering::Relaxed;

#[test]
fn each_request_is_made_once() {
    const REQUESTS: u64 = 1_000_000;
    let seed = fastrand::u64(..);
    let counts = example::run(REQUESTS, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert!(counts.requests.load(Relaxed) >= REQUESTS);
    let missing = counts.missing();
    assert!(missing.is_empty(), "seed {seed}: none of {missing:?} in {counts:?}");
}
