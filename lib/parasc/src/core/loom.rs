//! Every interleaving: whoever publishes work and whoever retires or sleeps, one of the
//! two sees the other.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::post::{Post, PostState};
use super::reserve::Reserve;

fn model(scene: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(scene);
}

#[test]
fn a_post_that_is_left_loses_no_request() {
    model(|| {
        let scene = Arc::new((Post::default(), AtomicU32::new(0)));
        // The thread is there.
        assert_eq!(scene.0.enter(), PostState::Vacant);
        let retiring = thread::spawn({
            let scene = Arc::clone(&scene);
            move || {
                let (post, request) = &*scene;
                // Its last look, and on the way out.
                let seen = request.load(Relaxed) != 0;
                seen || post.retire(|| false, || request.load(Relaxed) != 0)
            }
        });
        scene.1.store(1, Relaxed);
        let started = scene.0.enter() == PostState::Vacant;
        let stayed = retiring.join().unwrap();
        assert!(started || stayed, "nobody serves the request");
        // Two threads at one post would be as bad.
        assert!(!(started && stayed && scene.0.enter() == PostState::Vacant));
    });
}

#[test]
fn an_idle_thread_is_called_or_sees_the_request() {
    model(|| {
        let scene = Arc::new((Reserve::new(1), AtomicU32::new(0)));
        // The thread has been started.
        assert_eq!(scene.0.take_place(), Some(0));
        let member = thread::spawn({
            let scene = Arc::clone(&scene);
            move || {
                let (reserve, request) = &*scene;
                let has_work = || request.load(Acquire) != 0;
                // For loom the time to retire has always come.
                reserve.idle(0, Some(Instant::now()), || false, has_work) && has_work()
            }
        });
        scene.1.store(1, Release);
        // Not called: it is at work, and looks before it is idle, or has retired.
        let started = scene.0.call(1) == 0 && scene.0.take_place().is_some();
        let served = member.join().unwrap();
        assert!(served || started, "nobody serves the request");
    });
}

#[test]
fn each_call_of_idle_threads_brings_one() {
    model(|| {
        let reserve = Arc::new(Reserve::new(2));
        while reserve.take_place().is_some() {}
        let member = || {
            let reserve = Arc::clone(&reserve);
            thread::spawn(move || assert!(reserve.idle(0, None, || false, || false)))
        };
        let members = [member(), member()];
        let mut called = 0;
        while called < 2 {
            called += reserve.call(2 - called);
            thread::yield_now();
        }
        members.into_iter().for_each(|member| member.join().unwrap());
        assert_eq!(reserve.call(1), 0, "nobody is idle");
    });
}
