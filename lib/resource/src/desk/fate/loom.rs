//! A request that is submitted while its server ends runs once: on the server, or, got
//! back, nowhere. Nobody waits for ever.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::thread;

use super::{Fate, barrier};
use kumiki_slot::{Event, Lane};

struct Scene {
    lane: Lane,
    fate: Fate,
}

/// Serves what is there; how much that was.
fn look(scene: &Scene) -> usize {
    if scene.lane.newest() < Lane::<1>::FIRST {
        return 0;
    }
    match scene.lane.pending(Lane::<1>::FIRST) {
        Some(Event::Request(n)) if scene.lane.begin(n) => {
            scene.lane.complete(n, true);
            1
        }
        _ => 0,
    }
}

/// A request is submitted while `server` runs, which says how many it has served;
/// `requester` says whether it got the request back. Either has happened once, and both
/// ends come about.
fn runs_once(server: fn(&Scene) -> usize, requester: fn(&Scene, u64) -> bool) {
    // Not the model's: they count over all of its executions.
    let counts = [const { AtomicUsize::new(0) }; 2].map(std::sync::Arc::new);
    let [done, back] = counts.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let scene = Arc::new(Scene { lane: Lane::new(), fate: Fate::new() });
        let serving = thread::spawn({
            let scene = Arc::clone(&scene);
            move || server(&scene)
        });
        let n = Lane::<1>::FIRST;
        scene.lane.submit(n);
        let got_back = requester(&scene, n);
        let served = serving.join().unwrap();
        assert_eq!(served + usize::from(got_back), 1);
        assert_eq!(scene.lane.done(n).is_some(), served == 1);
        [&back, &done][served].fetch_add(1, Relaxed);
    });
    for count in counts {
        assert!(count.load(Relaxed) > 0);
    }
}

#[test]
fn a_request_is_served_or_got_back_while_the_server_ends() {
    let server = |scene: &Scene| {
        scene.fate.end();
        look(scene)
    };
    runs_once(server, |scene, n| {
        barrier::light();
        scene.fate.is_gone() && scene.lane.take_back(n)
    });
}

/// Checks it without a fence, and whatever the server was at when the requester came.
#[test]
fn what_a_server_that_has_ended_did_not_begin_is_got_back_without_a_fence() {
    let server = |scene: &Scene| {
        let served = look(scene);
        scene.fate.has_ended();
        served
    };
    runs_once(server, |scene, n| {
        while !scene.fate.is_over() {
            thread::yield_now();
        }
        let got_back = scene.lane.reclaim(n);
        // What was begun is done by now.
        assert_eq!(scene.lane.done(n).is_some(), !got_back);
        got_back
    });
}
