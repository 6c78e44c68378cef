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
    assert!(counts.kinds.iter().all(|count| count.load(Relaxed) > 0), "{counts:?}");
    let example::Counts { effects, engines, awaited, taken_back, dropped, by_hand, .. } = &counts;
    for count in [effects, engines, awaited, taken_back, dropped, by_hand] {
        assert!(count.load(Relaxed) > 0, "{counts:?}");
    }
    let example::Counts { refused, signals, processors, cancelled, others, .. } = &counts;
    for count in [refused, signals, processors, cancelled] {
        assert!(count.load(Relaxed) > 0, "{counts:?}");
    }
    // With one cpu hardly any batch is worth another thread.
    let alone = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
    assert!(alone || others.load(Relaxed) > 0, "{counts:?}");
}
