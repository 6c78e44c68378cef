//! A meeting of many members: a word for each group, and one for all.
//!
//! A group has as many *places* as it has members, and whoever comes takes one. The last one of a
//! group adds its members to those of all groups; with the last group the round is over, and all
//! groups are told, each by a line of its own at which its members wait:
//!
//! ```text
//! a group      (r, 0) ──▶ (r, 1) … (r, places)            full until the round is over
//!                     ◀──
//! all          (r, m) ──▶ (r, m + places)                 the last one of a group
//!              (r, m) ──▶ (r, m + 1)                      one that finds all groups full
//!              (r, m) ──▶ (r, m - 1)                      one that gives up, its group being full
//!                     ──▶ (r+1, 0) where m would be size: then each group's line is told r+1
//! ```
//!
//! # Who takes which place does not matter
//!
//! A member looks first at the group of the cpu that it runs on, which is near. Where that is full, it
//! looks at the others; where all are, it comes to the word of all. So the numbers of a round are
//! right whoever runs where, and a member that the kernel has moved costs a farther line.
//!
//! # Giving up
//!
//! Each step is one compare-and-swap. A member that gives up takes its place back while its group is
//! not full. A full group stays full until the round is over: from then on its members are
//! counted by the word of all, and there it takes one away. That may come before the last one of its
//! group has added them, so `m` may be below 0 for a moment. In either case it has given up by one
//! step, and if that step finds that the round is over, it has met the others.
//!
//! Let `w` be how many have given up at the word of all, `d` how many have come to it by themselves,
//! `p` the places taken: `p - w + d` members are there, `size` at most. Who comes to the word of all has
//! found all groups full, and they stay so: where `d > 0`, `p = size`, and so `d ≤ w`.
//!
//! - *The round is over no sooner than all are there.* `m`, when nobody is on the way, is the places of
//!   full groups less `w` plus `d`. That is `size` only if all groups are full and `d = w`: then `size`
//!   members are there.
//! - *It is over when all are.* Then `p = size + w - d`. With `d = 0` that is no more than `size` only if `w` is 0;
//!   with `d > 0`, `p = size`. Either way all groups are full and `d = w`, so the step that makes `m` this sum makes
//!   it `size`.
//!
//! # Which round it is
//!
//! A group's word is that of this round, or full and of the one before: a round ends with all groups full.
//! Who finds it full looks which it is: by what its group was told, which may be behind
//! for a moment and is never ahead (the last one of a round tells all groups before it comes to the
//! next, which does not end without it), and then by the word of all.

use super::Arrival;
use crate::primitive::{AtomicU64, Ordering};

/// The words of the protocol.
#[derive(Debug)]
pub(super) struct Groups {
    all: Apart,
    groups: Box<[Group]>,
    size: i32,
    /// Group of each cpu, by its number, as the members were placed when this was made.
    near: Box<[u16]>,
}

/// A word on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicU64);

#[derive(Debug)]
struct Group {
    came: Apart,
    told: RoundState,
}

/// Words that change once a round.
#[derive(Debug)]
#[repr(align(128))]
struct RoundState {
    /// Number of the round that is not over.
    round: AtomicU64,
    places: i32,
}

fn word(round: u32, came: i32) -> u64 {
    u64::from(round) << 32 | u64::from(came as u32)
}

fn parts(word: u64) -> (u32, i32) {
    ((word >> 32) as u32, word as u32 as i32)
}

fn is_after(round: u32, other: u32) -> bool {
    round.wrapping_sub(other) as i32 > 0
}

impl Groups {
    /// A meeting of groups of members, each given by the cpus that these are on.
    pub(super) fn of(cpus: &[Vec<usize>]) -> Self {
        let apart = || Apart(AtomicU64::new(0));
        let group = |cpus: &Vec<usize>| {
            let told = RoundState { round: AtomicU64::new(0), places: cpus.len() as i32 };
            Group { came: apart(), told }
        };
        let size = cpus.iter().map(Vec::len).sum::<usize>() as i32;
        let last = cpus.iter().flatten().max().map_or(0, |last| last + 1);
        let mut near = vec![0; last].into_boxed_slice();
        for (group, cpus) in cpus.iter().enumerate() {
            cpus.iter().for_each(|cpu| near[*cpu] = group as u16);
        }
        Groups { all: apart(), groups: cpus.iter().map(group).collect(), size, near }
    }

    /// The group whose members are near a cpu.
    pub(super) fn near(&self, cpu: usize) -> usize {
        self.near.get(cpu).copied().unwrap_or_default().into()
    }

    /// Comes to a group, if it has room; the arrival to wait for, or `None` if all have come now.
    pub(super) fn arrive(&self, near: usize) -> Option<Arrival> {
        let count = self.groups.len();
        // Acquire: what `is_over` would see. The round may be a later one already.
        let mut round = self.groups[near].told.round.load(Ordering::Acquire) as u32;
        loop {
            for at in (0..count).map(|at| (near + at) % count) {
                let Some((round, last)) = self.groups[at].enter(round) else { continue };
                let arrival = Arrival { round, waits: at, place: Some(at) };
                let places = self.groups[at].told.places;
                return match last && self.add(round, places) {
                    true => None,
                    false => Some(arrival),
                };
            }
            // All were full, in `round` or before.
            let (now, _) = parts(self.all.0.load(Ordering::Acquire));
            if now == round {
                let arrival = Arrival { round, waits: near, place: None };
                return if self.add(round, 1) { None } else { Some(arrival) };
            }
            round = now;
        }
    }

    /// Adds members to those of all groups; true if all have come now, and are told.
    fn add(&self, round: u32, members: i32) -> bool {
        let mut now = word(round, 0);
        loop {
            let (current, came) = parts(now);
            if current != round {
                // Somebody else has come in a member's place.
                return false;
            }
            let last = came + members == self.size;
            let over = round.wrapping_add(1);
            let next = if last { word(over, 0) } else { word(round, came + members) };
            // Release and Acquire as in `enter`, one group to the next.
            let swap =
                self.all.0.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) if last => {
                    for group in &self.groups {
                        // Release: partner is `is_over`.
                        group.told.round.store(over.into(), Ordering::Release);
                    }
                    return true;
                }
                Ok(_) => return false,
                Err(other) => now = other,
            }
        }
    }

    pub(super) fn is_over(&self, arrival: Arrival) -> bool {
        let told = self.groups[arrival.waits].told.round.load(Ordering::Acquire);
        is_after(told as u32, arrival.round)
    }

    /// Takes an arrival back; `false` if the round has ended, with it.
    pub(super) fn withdraw(&self, Arrival { round, place, .. }: Arrival) -> bool {
        if place.is_some_and(|at| self.groups[at].leave(round)) {
            return true;
        }
        // Acquire: if the round has ended, this is what `is_over` would see.
        let mut now = self.all.0.load(Ordering::Acquire);
        loop {
            let (current, came) = parts(now);
            if current != round {
                return false;
            }
            let next = word(round, came - 1);
            let swap =
                self.all.0.compare_exchange_weak(now, next, Ordering::Relaxed, Ordering::Acquire);
            match swap {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }

    /// Members that have come, if nobody comes or gives up meanwhile.
    pub(super) fn came(&self) -> usize {
        let (round, added) = parts(self.all.0.load(Ordering::Relaxed));
        let open = self.groups.iter().map(|group| {
            let (of, came) = parts(group.came.0.load(Ordering::Relaxed));
            if of == round && came < group.told.places { came } else { 0 }
        });
        (added + open.sum::<i32>()).clamp(0, self.size) as usize
    }

    pub(super) fn size(&self) -> usize {
        self.size as usize
    }
}

impl Group {
    /// Takes a place in this round, which is `round` or a later one: the round, and if it was the last place.
    /// `None` if it is full, in `round` or before.
    fn enter(&self, round: u32) -> Option<(u32, bool)> {
        let places = self.told.places;
        // Mostly wrong: the swap that fails brings the line as this thread's own.
        let mut now = word(round, 0);
        loop {
            let (of, came) = match parts(now) {
                (of, _) if is_after(round, of) => (round, 0),
                (_, came) if came == places => return None,
                parts => parts,
            };
            // Release, partner of `is_over` and of the last one's Acquire: what this member wrote.
            // Acquire: the last one has all that the others wrote, and hands it on by `add`. The
            // swaps between, also those that leave, keep what was released before.
            let next = word(of, came + 1);
            let swap =
                self.came.0.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) => return Some((of, came + 1 == places)),
                Err(other) => now = other,
            }
        }
    }

    /// Gives a place back; `false` if the group is full, or the round over.
    fn leave(&self, round: u32) -> bool {
        let mut now = self.came.0.load(Ordering::Relaxed);
        loop {
            let (of, came) = parts(now);
            if of != round || came == self.told.places {
                return false;
            }
            let next = word(of, came - 1);
            let swap =
                self.came.0.compare_exchange_weak(now, next, Ordering::Relaxed, Ordering::Relaxed);
            match swap {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }
}
