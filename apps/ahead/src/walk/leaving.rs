//! What makes a walk leave a folder: the program has left it behind, others need its room, or the program has come to a
//! halt, and what is open keeps a file system mounted.

use std::sync::atomic::Ordering;

use super::known::Known;
use super::{Job, Number, Walk};
use crate::shared::Shared;
use crate::uses::Way;

/// Folders that the program begins after it has used a name of another one, until it has left that behind;
/// and where that hinders.
pub(super) const AGE: u32 = 128;
pub(super) const AGE_HINDERING: u32 = 4;

/// Folders that are left: those that are old, or of these the ones that take room ahead of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    Old,
    InVain,
}

impl Walk {
    /// True for the one who looks again after a while whether folders may be closed.
    pub(crate) fn keep(&mut self, shared: &Shared) -> bool {
        let is_keeper = !self.has_keeper && self.known.iter().any(Option::is_some);
        if is_keeper {
            self.has_keeper = true;
            self.moved = moved(shared);
        }
        is_keeper
    }

    /// Closes all folders if the program has used nothing for that long: what is open keeps a file system mounted.
    pub(crate) fn kept(&mut self, shared: &Shared, is_late: bool) {
        self.has_keeper = false;
        if is_late && moved(shared) == self.moved {
            (0..self.known.len()).for_each(|at| self.leave_idle(shared, at));
        }
    }

    fn leave_idle(&mut self, shared: &Shared, at: usize) {
        if self.known.get(at).and_then(Option::as_ref).is_some_and(|known| known.busy == 0) {
            drop(self.leave(shared, at));
        }
    }

    /// Leaves folders that the program has left behind; true if there were some.
    pub(super) fn leave_old(&mut self, shared: &Shared, age: u32, why: Leave) -> bool {
        let now = shared.visits.load(Ordering::Relaxed);
        let age = age << shared.demand.passes_behind();
        let mut some = false;
        for at in 0..self.known.len() {
            let Some(Some(known)) = self.known.get(at) else { continue };
            let last = shared.uses.of(at as u16).map_or(0, |uses| uses.last()).max(known.since);
            // One that was listed ahead is ahead for longer.
            let age = if known.is_visited { age } else { age.saturating_mul(4) };
            let is_old = now.wrapping_sub(last) >= age && known.busy == 0;
            if is_old && (why == Leave::Old || known.takes_room(shared, at as u16)) {
                drop(self.leave(shared, at));
                some = true;
            }
        }
        some
    }

    pub(super) fn leave_oldest(&mut self, shared: &Shared) {
        let idle = self.known.iter().enumerate().filter_map(|(at, known)| {
            let known = known.as_ref().filter(|known| known.busy == 0 && known.is_visited)?;
            let last = shared.uses.of(at as u16).map_or(0, |uses| uses.last());
            Some((at, last.max(known.since)))
        });
        if let Some((at, _)) = idle.min_by_key(|(_, last)| *last) {
            drop(self.leave(shared, at));
        }
    }

    /// Takes a folder out, and counts what was used of it.
    pub(super) fn leave(&mut self, shared: &Shared, at: usize) -> Option<Known> {
        let known = self.known.get_mut(at).and_then(Option::take)?;
        let uses = shared.uses.of(at as u16)?;
        let sum = uses.sum(known.files, known.folders);
        // From now on uses are late ones.
        let turn = known.turn.wrapping_add(1);
        if let Some(next) = self.turns.get_mut(at) {
            *next = turn;
        }
        uses.begin(turn, 0, Way::Listed);
        shared.demand.attributes.left(known.asked_attributes.saturating_sub(sum.used_attributes));
        shared.demand.contents.left(known.asked_contents.saturating_sub(sum.used_contents));
        if known.is_visited {
            shared.demand.leave(sum.class, sum.files, sum.folders, sum.visited);
        } else {
            shared.demand.lists.left(1);
        }
        let number = Number { folder: at as u16, turn: known.turn };
        self.jobs.retain(|job| match job {
            Job::Begin(_) => true,
            Job::Ask(folder, _) | Job::Descend(folder) | Job::Enter(folder, _) => *folder != number,
        });
        Some(known)
    }
}

/// A number that changes whenever the program begins a folder or uses a name.
fn moved(shared: &Shared) -> u32 {
    let visits = shared.visits.load(Ordering::Relaxed);
    visits.wrapping_add(shared.demand.uses())
}
