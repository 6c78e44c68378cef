//! A meeting point of a team's members.
//!
//! # Protocol
//!
//! Members count themselves in a word that has the number of the round beside it; the last one begins the
//! next round, which the others see. Few count in [one word](word). From 16 on each [group](groups) that hands work
//! on has a word of its own, so that 64 do not wait for 64 transfers of one line.
//!
//! A member that gives up takes its own arrival back, or sees that the round has ended meanwhile
//! and has met the others. There is nothing between the two: after a time-out the barrier
//! is as if that member had not come.

mod groups;
mod word;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::primitive::{AtomicBool, Ordering, spin_loop, yield_now};
use groups::Groups;
use kumiki_sys::fork::Process;
use kumiki_sys::here::Here;
use kumiki_wait::Deadline;
use word::Word;

/// Looks before a waiting member asks whether to go on waiting, and lets
/// others have its cpu: some ten microseconds.
const LOOKS: u32 = if cfg!(sim) { 100 } else { 512 };

/// A reusable barrier at which members wait for one another; made by
/// [`Team::barrier`](crate::Team::barrier). Members spin: what lies between two barriers
/// should be short, and every member must come, and nobody else.
#[derive(Debug)]
pub struct Barrier {
    meeting: Meeting,
    /// Process that has the helpers; `None` if the team has none.
    home: Option<Process>,
    /// A member has panicked since the team's last broadcast began, or did not begin
    /// in time.
    deserted: Arc<AtomicBool>,
}

impl Barrier {
    /// One for groups of members, each given by the cpus that these are on.
    pub(crate) fn new(
        groups: &[Vec<usize>],
        home: Option<Process>,
        deserted: Arc<AtomicBool>,
    ) -> Self {
        Barrier { meeting: Meeting::of(groups), home, deserted }
    }

    /// Waits until every member has called this; what each wrote before is
    /// visible to all after.
    ///
    /// # Panics
    /// If a member will never come: it panicked in the same broadcast, did not begin in
    /// time ([`Team::broadcast_timeout`](crate::Team::broadcast_timeout)), or stayed in
    /// the parent of this child of fork(2).
    pub fn wait(&self) {
        if let Err(error) = self.meet(Deadline::NEVER) {
            panic!("{error}");
        }
    }

    /// Waits for `timeout` at most. After an error this member counts as not arrived:
    /// the others keep waiting for it, and it may call again.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if not all others have come by then; [`Error::Deserted`], at
    /// once, where [`Barrier::wait`] panics.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.meet(Deadline::after(timeout))
    }

    fn meet(&self, deadline: Deadline) -> Result<()> {
        let Some(arrival) = self.meeting.arrive() else { return Ok(()) };
        loop {
            for _ in 0..LOOKS {
                if self.meeting.is_over(arrival) {
                    return Ok(());
                }
                spin_loop();
            }
            if let Some(error) = self.in_vain(deadline) {
                return if self.meeting.withdraw(arrival) { Err(error) } else { Ok(()) };
            }
            yield_now();
        }
    }

    /// Error for which a member that waits should give up.
    fn in_vain(&self, deadline: Deadline) -> Option<Error> {
        // Relaxed: whoever sees it later waits a little longer.
        let deserted = self.deserted.load(Ordering::Relaxed)
            || self.home.is_some_and(|home| !home.is_current());
        if deserted {
            return Some(Error::Deserted);
        }
        let (came, of) = (self.meeting.came(), self.meeting.size());
        deadline
            .passed()
            .then(|| Error::late(deadline, "members had come to the barrier", came, of))
    }
}

/// The members' protocol.
#[derive(Debug)]
enum Meeting {
    Few(Word),
    Many(Box<Groups>),
}

/// A member that has come.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    round: u32,
    /// Group where it waits, of [`Meeting::Many`], …
    waits: usize,
    /// … and that whose place it has; `None` at the word of all.
    place: Option<usize>,
}

impl Meeting {
    fn of(groups: &[Vec<usize>]) -> Self {
        match groups {
            [members] => Meeting::Few(Word::of(members.len())),
            groups => Meeting::Many(Box::new(Groups::of(groups))),
        }
    }

    /// Comes; `None` if all have come now.
    fn arrive(&self) -> Option<Arrival> {
        match self {
            Meeting::Few(word) => {
                word.arrive().map(|round| Arrival { round, waits: 0, place: None })
            }
            Meeting::Many(groups) => groups.arrive(groups.near(Here::of_this_thread().cpu())),
        }
    }

    fn is_over(&self, arrival: Arrival) -> bool {
        match self {
            Meeting::Few(word) => word.is_over(arrival.round),
            Meeting::Many(groups) => groups.is_over(arrival),
        }
    }

    /// Takes an arrival back; `false` if the round has ended, with it.
    fn withdraw(&self, arrival: Arrival) -> bool {
        match self {
            Meeting::Few(word) => word.withdraw(arrival.round),
            Meeting::Many(groups) => groups.withdraw(arrival),
        }
    }

    fn came(&self) -> usize {
        match self {
            Meeting::Few(word) => word.came(),
            Meeting::Many(groups) => groups.came(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Meeting::Few(word) => word.size(),
            Meeting::Many(groups) => groups.size(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    /// A barrier of groups of so many members.
    fn barrier(groups: &[usize]) -> Barrier {
        let cpus = |members: &usize| (0..*members).collect();
        Barrier::new(&groups.iter().map(cpus).collect::<Vec<_>>(), None, Arc::default())
    }

    #[test]
    fn after_a_time_out_it_is_as_if_nobody_had_come() {
        for barrier in [barrier(&[2]), barrier(&[1, 1])] {
            for timeout in [Duration::ZERO, Duration::from_millis(2)] {
                let error = barrier.wait_timeout(timeout).unwrap_err();
                assert!(matches!(error, Error::TimedOut { done: 1, of: 2, .. }), "{error}");
                assert!(error.to_string().starts_with("1 of 2 members had come"), "{error}");
            }
            // If an arrival had stayed, one of these would pass alone.
            let came = AtomicUsize::new(0);
            thread::scope(|threads| {
                for _ in 0..2 {
                    threads.spawn(|| {
                        came.fetch_add(1, Ordering::Relaxed);
                        barrier.wait_timeout(Duration::MAX).unwrap();
                        assert_eq!(came.load(Ordering::Relaxed), 2);
                    });
                }
            });
        }
    }

    /// Their threads run on cpus of any group, or of none.
    fn meet_in_every_round(groups: &[usize], rounds: usize) {
        let (barrier, members) = (barrier(groups), groups.iter().sum::<usize>());
        let came = AtomicUsize::new(0);
        thread::scope(|threads| {
            for member in 0..members as u64 {
                let (barrier, came) = (&barrier, &came);
                threads.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(member);
                    for round in 1..=rounds {
                        came.fetch_add(1, Ordering::Relaxed);
                        let limit = |rng: &mut fastrand::Rng| Duration::from_micros(rng.u64(0..40));
                        while barrier.wait_timeout(limit(&mut rng)).is_err() {}
                        assert_eq!(came.load(Ordering::Relaxed), round * members);
                        barrier.wait();
                    }
                });
            }
        });
        assert_eq!(barrier.meeting.came(), 0);
    }

    #[test]
    fn members_that_give_up_at_random_meet_in_every_round() {
        meet_in_every_round(&[3], 300);
        meet_in_every_round(&[1, 1], 300);
        meet_in_every_round(&[2, 1], 300);
        meet_in_every_round(&[3, 1, 2], 100);
    }

    #[test]
    fn nobody_waits_for_a_member_that_has_panicked() {
        for barrier in [barrier(&[3]), barrier(&[2, 1]), barrier(&[1, 1, 1])] {
            thread::scope(|threads| {
                let waits = threads.spawn(|| barrier.wait_timeout(Duration::MAX));
                let panics = threads.spawn(|| barrier.wait());
                while barrier.meeting.came() < 2 {
                    thread::yield_now();
                }
                barrier.deserted.store(true, Ordering::Relaxed);
                assert!(matches!(waits.join().unwrap(), Err(Error::Deserted)));
                let panic = panics.join().unwrap_err();
                let text = panic.downcast_ref::<String>().unwrap();
                assert!(text.contains("will not come to the barrier"), "{text}");
            });
            assert!(matches!(barrier.wait_timeout(Duration::MAX), Err(Error::Deserted)));
            assert_eq!(barrier.meeting.came(), 0);
        }
    }

    #[test]
    fn one_member_meets_itself() {
        let barrier = barrier(&[1]);
        barrier.wait();
        barrier.wait_timeout(Duration::ZERO).unwrap();
    }
}

#[cfg(all(test, loom))]
mod loom;
