//! Every interleaving of the meetings' protocols: all come or none, with what
//! they wrote, also when some give up and come again, and when others have taken their places.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Arrival, Meeting};

/// A meeting and a place that each member may write before it.
struct Scene {
    meeting: Meeting,
    /// Group that each member looks at first.
    near: &'static [usize],
    written: Vec<UnsafeCell<u64>>,
}

// SAFETY: each place is written by its member before a round and read by all
// after it; the checker reports where that is not ordered.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

impl Scene {
    /// Members of groups of such sizes, each at the group that is `near`; or of one.
    fn of(groups: &[usize], near: &'static [usize]) -> Self {
        let cpus: Vec<Vec<usize>> = groups.iter().map(|members| (0..*members).collect()).collect();
        let members = groups.iter().sum();
        let written = (0..members).map(|_| UnsafeCell::new(0)).collect();
        Scene { meeting: Meeting::of(&cpus), near, written }
    }

    fn arrive(&self, member: usize) -> Option<Arrival> {
        match &self.meeting {
            Meeting::Many(groups) => groups.arrive(self.near[member]),
            few => few.arrive(),
        }
    }

    /// Meets the others in `round`; with `patience` looks before it gives up
    /// once and comes again.
    fn meet(&self, member: usize, round: u64, patience: Option<u32>) {
        // SAFETY: live data; that nobody else is there is what is checked.
        self.written[member].with_mut(|place| unsafe { *place = round });
        let mut left = patience;
        'come: while let Some(arrival) = self.arrive(member) {
            loop {
                if self.meeting.is_over(arrival) {
                    break 'come;
                }
                if left == Some(0) {
                    left = None;
                    if self.meeting.withdraw(arrival) {
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

    fn meet_again(&self, member: usize) {
        if let Some(arrival) = self.arrive(member) {
            while !self.meeting.is_over(arrival) {
                thread::yield_now();
            }
        }
    }
}

/// Groups' sizes, and the group that each member looks at first.
type Shape = (&'static [usize], &'static [usize]);

const TWO: [Shape; 4] = [(&[2], &[]), (&[1, 1], &[0, 1]), (&[1, 1], &[0, 0]), (&[1, 1], &[1, 0])];

fn check(rounds: u64, patience: &'static [Option<u32>]) {
    TWO.map(|shape| check_shape(shape, rounds, patience));
}

fn check_shape((groups, near): Shape, rounds: u64, patience: &'static [Option<u32>]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let scene = Arc::new(Scene::of(groups, near));
        let run = move |scene: &Scene, member: usize| {
            for round in 1..=rounds {
                scene.meet(member, round, patience[member]);
                if round < rounds {
                    // Nobody writes for the next round before all have read.
                    scene.meet_again(member);
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
fn three_meet((groups, near): Shape, gives_up: [bool; 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let scene = Arc::new(Scene::of(groups, near));
        let come = |member: usize, gives_up: bool| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                // SAFETY: live data; see above.
                scene.written[member].with_mut(|place| unsafe { *place = 1 });
                let arrival = scene.arrive(member);
                if let Some(arrival) = arrival.filter(|_| gives_up) {
                    if scene.meeting.withdraw(arrival) {
                        scene.arrive(member);
                    }
                }
            })
        };
        let others = [come(1, gives_up[0]), come(2, gives_up[1])];
        scene.meet(0, 1, None);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(scene.meeting.came(), 0);
    });
}

#[test]
fn three_meet_though_one_gives_up() {
    three_meet((&[3], &[]), [true, false]);
}

/// A group of two, full or not, and one alone, whose place another one takes.
#[test]
fn three_of_two_groups_meet_though_some_give_up() {
    three_meet((&[2, 1], &[0, 0, 1]), [true, false]);
    three_meet((&[1, 2], &[0, 1, 1]), [true, true]);
    three_meet((&[2, 1], &[0, 1, 1]), [true, true]);
}
