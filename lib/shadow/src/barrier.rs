//! A meeting point of a team's members.
//!
//! # Protocol
//!
//! One word holds the number of the round (upper half) and how many members
//! have come (lower half):
//!
//! ```text
//!               arrive                arrive, the last one
//! (r, 0) ─────────▶ (r, 1) … (r, size-1) ─────────▶ (r+1, 0)
//!               ◀─────────
//!                withdraw, only while the round is still r
//! ```
//!
//! Every step is one compare-and-swap, so a member that gives up either takes
//! its own arrival back, or sees that the round has ended meanwhile and has met
//! the others. There is nothing between the two: after a time-out the barrier
//! is as if that member had not come.
//!
//! A member is never a whole turn of the counter (2^32 rounds) behind, because
//! no round ends without it.
//!
//! # Many members
//!
//! Whoever waits looks at the word, and each arrival takes it away from all who look: for 64
//! members that is a transfer for every pair of them, nearly. From [`MANY`] on the last one who comes
//! writes the number of the rounds that are over to a line of its own as well, and there they look.
//! It may be behind the word for a moment, never ahead of it: the last one of a round writes it
//! before it comes to the next, which does not end without it.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::primitive::{AtomicBool, AtomicU64, Ordering, spin_loop, yield_now};
use kumiki_sys::fork::Process;
use kumiki_wait::Deadline;

/// Looks before a waiting member asks whether to go on waiting, and lets
/// others have its cpu: some ten microseconds.
const LOOKS: u32 = if cfg!(sim) { 100 } else { 512 };

/// A reusable barrier at which members wait for one another; made by
/// [`Team::barrier`](crate::Team::barrier). Members spin: what lies between two barriers
/// should be short, and every member must come.
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
    pub(crate) fn new(size: usize, home: Option<Process>, deserted: Arc<AtomicBool>) -> Self {
        Barrier { meeting: Meeting::of(size), home, deserted }
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
        let Some(round) = self.meeting.arrive() else { return Ok(()) };
        loop {
            for _ in 0..LOOKS {
                if self.meeting.is_over(round) {
                    return Ok(());
                }
                spin_loop();
            }
            if let Some(error) = self.in_vain(deadline) {
                return if self.meeting.withdraw(round) { Err(error) } else { Ok(()) };
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

/// The word of the protocol.
#[derive(Debug)]
struct Meeting {
    word: AtomicU64,
    size: u64,
    /// Place where many members wait.
    over: Option<Box<Over>>,
}

/// Members from which on they wait at a line of its own: with fewer it costs more than it saves
/// (rows `barrier` of dev/sim/counts.txt).
const MANY: u64 = 16;

/// Rounds that are over, on a line of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Over(AtomicU64);

const ROUND: u32 = 32;
const CAME: u64 = (1 << ROUND) - 1;

impl Meeting {
    fn of(size: usize) -> Self {
        Meeting::waiting(size, size as u64 >= MANY)
    }

    /// One whose members wait at a line `apart`, or at the word.
    fn waiting(size: usize, apart: bool) -> Self {
        let size = size as u64;
        assert!(size <= CAME, "more members than any machine has cpus");
        let over = apart.then(|| Box::new(Over(AtomicU64::new(0))));
        Meeting { word: AtomicU64::new(0), size, over }
    }

    /// Comes; the round to wait for, or `None` if all have come now.
    fn arrive(&self) -> Option<u64> {
        // Mostly wrong: the swap that fails brings the line as this thread's own, where a load would
        // bring a copy first.
        let mut now = 0;
        loop {
            let (round, last) = (now >> ROUND, (now & CAME) + 1 == self.size);
            let next = if last { round.wrapping_add(1) << ROUND } else { now + 1 };
            // Release, partner of `is_over` and of the last one's Acquire: what
            // this member wrote. Acquire: the last one has all that the others
            // wrote, and hands it on by its own Release. The swaps between, also
            // those that withdraw, keep what was released before.
            let swap =
                self.word.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) if last => {
                    if let Some(over) = &self.over {
                        // Release: partner is `is_over`.
                        over.0.store(next >> ROUND, Ordering::Release);
                    }
                    return None;
                }
                Ok(_) => return Some(round),
                Err(other) => now = other,
            }
        }
    }

    fn is_over(&self, round: u64) -> bool {
        match &self.over {
            None => self.word.load(Ordering::Acquire) >> ROUND != round,
            // A round or more behind it is not over: numbers of 32 bits, which begin again.
            Some(over) => {
                (over.0.load(Ordering::Acquire) as u32).wrapping_sub(round as u32) as i32 > 0
            }
        }
    }

    /// Takes an arrival back; `false` if the round has ended, with it.
    fn withdraw(&self, round: u64) -> bool {
        // Acquire: if the round has ended, this is what `is_over` would see.
        let mut now = self.word.load(Ordering::Acquire);
        while now >> ROUND == round {
            let swap =
                self.word.compare_exchange_weak(now, now - 1, Ordering::Relaxed, Ordering::Acquire);
            match swap {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    fn came(&self) -> usize {
        (self.word.load(Ordering::Relaxed) & CAME) as usize
    }

    fn size(&self) -> usize {
        self.size as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    fn barrier(size: usize) -> Barrier {
        Barrier::new(size, None, Arc::default())
    }

    #[test]
    fn after_a_time_out_it_is_as_if_nobody_had_come() {
        let barrier = barrier(2);
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

    #[test]
    fn members_that_give_up_at_random_meet_in_every_round() {
        const MEMBERS: usize = 3;
        const ROUNDS: usize = 300;
        let barrier = barrier(MEMBERS);
        let came = AtomicUsize::new(0);
        thread::scope(|threads| {
            for member in 0..MEMBERS as u64 {
                let (barrier, came) = (&barrier, &came);
                threads.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(member);
                    for round in 1..=ROUNDS {
                        came.fetch_add(1, Ordering::Relaxed);
                        let limit = |rng: &mut fastrand::Rng| Duration::from_micros(rng.u64(0..40));
                        while barrier.wait_timeout(limit(&mut rng)).is_err() {}
                        assert_eq!(came.load(Ordering::Relaxed), round * MEMBERS);
                        barrier.wait();
                    }
                });
            }
        });
        assert_eq!(barrier.meeting.came(), 0);
    }

    #[test]
    fn nobody_waits_for_a_member_that_has_panicked() {
        let barrier = barrier(3);
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

    #[test]
    fn one_member_meets_itself() {
        let barrier = barrier(1);
        barrier.wait();
        barrier.wait_timeout(Duration::ZERO).unwrap();
    }
}

#[cfg(all(test, loom))]
mod loom;
