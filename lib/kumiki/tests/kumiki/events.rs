//! With the feature `tracing` a program hears what its threads do to each other.
#![cfg(all(feature = "tracing", feature = "parasc", feature = "shadow"))]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kumiki::parasc::op::{AtFlags, CWD, Statx, StatxFlags};
use kumiki::parasc::{Config, Engine};
use kumiki::shadow::Shadow;
use kumiki_sys::event::tracing::field::{Field, Visit};
use kumiki_sys::event::tracing::span::{Attributes, Id, Record};
use kumiki_sys::event::tracing::{Event, Metadata, Subscriber, subscriber};

/// Events that were heard, without their values.
static HEARD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target().starts_with("kumiki")
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
            heard.insert(format!("{value:?}"));
        }
    }
}

fn heard(message: &str) -> bool {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner).contains(message)
}

#[test]
fn who_listens_hears_hand_overs_sleeps_wakes_and_claims() {
    if kumiki::sys::affinity::current().unwrap().iter().count() < 2 {
        eprintln!("on one cpu nothing is handed over: passed over");
        return;
    }
    subscriber::set_global_default(Listener).unwrap();
    let mut shadow = Shadow::create_or_inline().unwrap();
    let engine = Engine::new(&Config::default()).unwrap();
    let mut requester = engine.requester().unwrap();
    let wanted = ["start a thread", "hand over", "sleep", "wake", "claim calls"];
    let until = Instant::now() + Duration::from_secs(60);
    while !wanted.iter().all(|message| heard(message)) {
        let missing: Vec<_> = wanted.iter().filter(|message| !heard(message)).collect();
        assert!(Instant::now() < until, "not heard: {missing:?}");
        // Long enough for the helper to sleep.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(shadow.both(|| 1, || 2), (1, 2));
        let stat = |_| Statx::new(CWD, c"/proc/self/status", AtFlags::empty(), StatxFlags::SIZE);
        let mut batch: Vec<_> = (0..512).map(stat).collect();
        assert!(requester.run(&mut batch).unwrap().iter().all(Result::is_ok));
    }
}
