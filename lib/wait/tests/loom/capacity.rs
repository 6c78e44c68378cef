//! Places that are taken and given back while others are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kumiki_wait::Capacity;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::SeqCst;
use loom::thread;

/// One place that is taken. A taker comes while its holder gives it back: it gets it, or the holder
/// is told and sees to it.
fn scene(refuse: fn(&Capacity) -> bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let (places, served) = (Arc::new(Capacity::new(1)), Arc::new(AtomicUsize::new(0)));
        assert!(places.take());
        let takers = [(); 2].map(|()| {
            let (places, served) = (Arc::clone(&places), Arc::clone(&served));
            thread::spawn(move || {
                if refuse(&places) {
                    served.fetch_add(1, SeqCst);
                    // It serves those who wait, as whoever was told.
                    if places.give_back() {
                        served.fetch_add(10, SeqCst);
                    }
                }
            })
        });
        if places.give_back() {
            served.fetch_add(10, SeqCst);
        }
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        let (all, free) = (served.load(SeqCst), places.taken() == 0);
        // Both were served, or somebody was told of one who was not.
        assert!(free && (all % 10 == 2 || all >= 10), "a place is free and wanted: {all}");
    });
}

#[test]
fn who_is_refused_is_told_of() {
    scene(Capacity::take);
}

#[test]
fn the_model_finds_a_refusal_that_nobody_is_told_of() {
    let lost = catch_unwind(AssertUnwindSafe(|| scene(Capacity::take_too_early)));
    assert!(lost.is_err(), "no refusal was lost");
}
