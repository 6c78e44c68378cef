//! A team's barrier beside those that are published.
//!
//! Each is met many times within a broadcast, by which the broadcast's own lines hardly count. Members are known
//! by their cpus here, of which a machine has as many as the team has members.

use kumiki_shadow::Team;
use kumiki_sys::here::Here;
use kumiki_sys::sim::atomic::{AtomicU64, Ordering};
use kumiki_sys::sim::spin_loop;

use super::shadow::SPINS;
use crate::place::Place;
use crate::report::Report;

const WARM: u32 = 2;
const ROUNDS: u32 = 5;
/// Meetings of a broadcast.
const MEETINGS: u32 = 32;
/// Members that have a counter of their own.
const GROUP: usize = 8;

/// A word on lines of its own: the number of a meeting that is over, or of those that have come to all.
#[derive(Default)]
#[repr(align(128))]
struct Word(AtomicU64);

impl Word {
    fn await_number(&self, number: u64) {
        while self.0.load(Ordering::Acquire) < number {
            spin_loop();
        }
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }

    /// Counts one that has come; true if it is the last one of so many for this meeting.
    fn is_last(&self, of: usize, number: u64) -> bool {
        self.0.fetch_add(1, Ordering::AcqRel) + 1 == of as u64 * number
    }
}

fn words(count: usize) -> Vec<Word> {
    (0..count).map(|_| Word::default()).collect()
}

/// Time of one meeting: `meet` is told which member meets, and for which time, from 1 on.
fn measured(place: &Place, meet: impl Fn(&Team, usize) -> Meet + 'static) -> Report {
    let cpus = place.cpus();
    let report = place.run(move |stage| {
        let mut team = Team::with_policy(cpus, &SPINS).expect("all cpus");
        let meet = meet(&team, cpus);
        let mut before = 0;
        stage.measured(WARM, ROUNDS, || {
            team.broadcast(|_| {
                let member = Here::of_this_thread().cpu();
                (1..=u64::from(MEETINGS)).for_each(|number| meet(member, before + number));
            });
            before += u64::from(MEETINGS);
        })
    });
    report.each(MEETINGS)
}

type Meet = Box<dyn Fn(usize, u64) + Sync>;

/// Today's.
pub(super) fn ours(place: &Place) -> Report {
    measured(place, |team, _| {
        let barrier = team.barrier();
        Box::new(move |_, _| barrier.wait())
    })
}

/// One counter, and a word of the meetings that are over.
pub(super) fn counter(place: &Place) -> Report {
    measured(place, |_, members| {
        let (came, over) = (Word::default(), Word::default());
        Box::new(move |_, number| match came.is_last(members, number) {
            true => over.set(number),
            false => over.await_number(number),
        })
    })
}

/// A counter for each group; the last one of each comes to a counter of groups, and the last one of these tells all
/// groups.
pub(super) fn groups(place: &Place) -> Report {
    measured(place, |_, members| {
        let groups = members.div_ceil(GROUP);
        let (came, over, all) = (words(groups), words(groups), Word::default());
        Box::new(move |member, number| {
            let group = member / GROUP;
            let size = GROUP.min(members - group * GROUP);
            if came[group].is_last(size, number) && all.is_last(groups, number) {
                over.iter().for_each(|word| word.set(number));
            }
            over[group].await_number(number);
        })
    })
}

/// Mellor-Crummey and Scott's tree: each waits for four children, tells its parent, and wakes two. A parent's
/// children tell it in one line.
pub(super) fn tree(place: &Place) -> Report {
    const COME: usize = 4;
    const WOKEN: usize = 2;
    #[derive(Default)]
    #[repr(align(128))]
    struct Children([AtomicU64; COME]);
    measured(place, |_, members| {
        let came: Vec<_> = (0..members).map(|_| Children::default()).collect();
        let over = words(members);
        Box::new(move |member, number| {
            let children = (COME * member + 1..members).take(COME).count();
            for child in &came[member].0[..children] {
                while child.load(Ordering::Acquire) < number {
                    spin_loop();
                }
            }
            if let Some(at) = member.checked_sub(1) {
                came[at / COME].0[at % COME].store(number, Ordering::Release);
                over[member].await_number(number);
            }
            let woken = (WOKEN * member + 1..members).take(WOKEN);
            woken.for_each(|child| over[child].set(number));
        })
    })
}

/// Tells, in round r, the member 2^r after each one, which waits for the one as far before it.
pub(super) fn dissemination(place: &Place) -> Report {
    measured(place, |_, members| {
        let rounds = members.next_power_of_two().ilog2();
        let told: Vec<_> = (0..rounds).map(|_| words(members)).collect();
        Box::new(move |member, number| {
            for (round, told) in told.iter().enumerate() {
                told[(member + (1 << round)) % members].set(number);
                told[member].await_number(number);
            }
        })
    })
}
