//! Every interleaving of the meeting's protocol: all come or none, with what
//! they wrote, also when some give up and come again.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::Meeting;

/// A meeting and a place that each member may write before it.
struct Scene {
    meeting: Meeting,
    written: Vec<UnsafeCell<u64>>,
}

// SAFETY: each place is written by its member before a round and read by all
// after it; the checker reports where that is not ordered.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

impl Scene {
    /// Meets the others in `round`; with `patience` looks before it gives up
    /// once and comes again.
    fn meet(&self, member: usize, round: u64, patience: Option<u32>) {
        // SAFETY: live data; that nobody else is there is what is checked.
        self.written[member].with_mut(|place| unsafe { *place = round });
        let mut left = patience;
        'come: while let Some(number) = self.meeting.arrive() {
            loop {
                if self.meeting.is_over(number) {
                    break 'come;
                }
                if left == Some(0) {
                    left = None;
                    if self.meeting.withdraw(number) {
                        continue 'come;
                    }
                    break 'come;
                }
                left = left.map(|left| left - 1);
                thread::yield_now();
            }
        }
        for place in &self.written {
            // SAFETY: live data; see above.
            let seen = place.with(|place| unsafe { *place });
            assert_eq!(seen, round, "somebody had not come");
        }
    }

    fn meet_again(&self) {
        if let Some(number) = self.meeting.arrive() {
            while !self.meeting.is_over(number) {
                thread::yield_now();
            }
        }
    }
}

fn check(rounds: u64, patience: &'static [Option<u32>]) {
    [false, true].map(|apart| check_waiting(apart, rounds, patience));
}

fn check_waiting(apart: bool, rounds: u64, patience: &'static [Option<u32>]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let written = patience.iter().map(|_| UnsafeCell::new(0)).collect();
        let scene = Arc::new(Scene { meeting: Meeting::waiting(patience.len(), apart), written });
        let run = move |scene: &Scene, member: usize| {
            for round in 1..=rounds {
                scene.meet(member, round, patience[member]);
                if round < rounds {
                    // Nobody writes for the next round before all have read.
                    scene.meet_again();
                }
            }
        };
        let others: Vec<_> = (1..patience.len())
            .map(|member| {
                let scene = Arc::clone(&scene);
                thread::spawn(move || run(&scene, member))
            })
            .collect();
        run(&scene, 0);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(scene.meeting.came(), 0);
    });
}

#[test]
fn two_meet_with_what_they_wrote() {
    check(2, &[None, None]);
}

#[test]
fn one_that_gives_up_has_come_or_has_not() {
    check(1, &[Some(0), None]);
    check(1, &[Some(1), Some(0)]);
    check(2, &[Some(0), None]);
}

/// Only one waits to the end: two that spin would yield to each other for ever.
#[test]
fn three_meet_though_one_gives_up() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(|| {
        let written = (0..3).map(|_| UnsafeCell::new(0)).collect();
        let scene = Arc::new(Scene { meeting: Meeting::of(3), written });
        let come = |member: usize, gives_up: bool| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                // SAFETY: live data; see above.
                scene.written[member].with_mut(|place| unsafe { *place = 1 });
                let round = scene.meeting.arrive();
                if let Some(round) = round.filter(|_| gives_up) {
                    if scene.meeting.withdraw(round) {
                        scene.meeting.arrive();
                    }
                }
            })
        };
        let others = [come(1, true), come(2, false)];
        scene.meet(0, 1, None);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(scene.meeting.came(), 0);
    });
}
