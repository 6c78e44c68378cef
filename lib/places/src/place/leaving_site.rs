//! Steps of a place that moves to another folder, as they are asked for.

use bytes::Bytes;

use crate::durable::leaving::STILL;
use crate::place::parts::answer;
use crate::place::site::Site;
use crate::wire::{LeaveFiles, LeaveStep, Outcome, Refusal, Why};

/// Bytes of an answer beside a piece of a file, at most.
const BESIDE: usize = 16;

impl Site {
    /// Does a step of a move.
    pub(crate) fn leave(&self, ticket: u64, step: &LeaveStep, room: usize) -> Outcome {
        let refused = |why, text: String| Err(Refusal::new(why, text));
        if !self.allow.leaves() {
            let text = format!(
                "{} may not be moved: `move = true` in its allow-list would let it be",
                self.name
            );
            return refused(Why::NotAllowed, text);
        }
        let Some(keeping) = &self.keeping else {
            let text = format!("{} is not durable: only what is kept in files moves", self.name);
            return refused(Why::NotAllowed, text);
        };
        let mut state = self.leaving.state();
        let is_still = state.still_since.is_some_and(|since| since.elapsed() < STILL);
        let commits = matches!(step, LeaveStep::Commit { .. });
        if state.left.is_some() && !commits {
            return refused(Why::NotFound, format!("{} has left for another folder", self.name));
        }
        match step {
            LeaveStep::Files => answer(&LeaveFiles { files: keeping.log().files() }),
            LeaveStep::Read { file, at, bytes } => {
                let known = keeping.log().files().into_iter().find(|(name, _)| name == file);
                let Some((_, length)) = known else {
                    return refused(
                        Why::NotFound,
                        format!("{file} has gone: a snapshot has all of it"),
                    );
                };
                let most =
                    length.saturating_sub(*at).min(*bytes).min(room.saturating_sub(BESIDE) as u64);
                match keeping.disk.read_at(file, *at, most as usize) {
                    Ok(piece) => answer(&Bytes::from(piece)),
                    Err(error) => refused(Why::NotFound, format!("{file}: {error}")),
                }
            }
            LeaveStep::Freeze if is_still && state.ticket != ticket => {
                refused(Why::Taken, format!("{} is being moved by somebody else", self.name))
            }
            LeaveStep::Freeze => {
                self.leaving.freeze(&mut state, ticket);
                answer(&())
            }
            LeaveStep::Commit { .. } if state.left.is_some() && state.ticket == ticket => {
                answer(&())
            }
            LeaveStep::Commit { to } if is_still && state.ticket == ticket => {
                state.left = Some(keeping.log().leave(to));
                answer(&())
            }
            LeaveStep::Commit { .. } => {
                let text = format!(
                    "{} has not stood still for this move, or for longer than {} s: it goes on here",
                    self.name,
                    STILL.as_secs()
                );
                refused(Why::Full, text)
            }
            LeaveStep::GiveUp => {
                if state.ticket == ticket && state.left.is_none() {
                    self.leaving.thaw(&mut state);
                }
                answer(&())
            }
        }
    }
}
