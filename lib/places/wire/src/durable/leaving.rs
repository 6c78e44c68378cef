//! A durable place that moves to another folder: its files are read while it serves; then it stands still for a moment, and
//! ends here for good, by a last word in its log.
//!
//! ```text
//!  serves ── Files, Read … ──▶ Freeze ──▶ stands still ── Files, Read ──▶ Commit: `left` is flushed ──▶ answered, ended
//!     ▲                                       │
//!     ╰────────── GiveUp, or two seconds ─────╯
//! ```
//!
//! Who commits later than those two seconds is refused: the place has gone on. While it stands still nothing is
//! answered, so that nothing is answered that is not in the files.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::wire::{LeaveStep, Operation, Request};

/// Time for which a place stands still, at most.
pub const STILL: Duration = Duration::from_secs(2);

/// Stage of a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MoveStage {
    #[default]
    Serves,
    /// Stands still.
    Still,
    /// Has left, and who has taken it was told so.
    Left,
}

/// Progress of a move.
#[derive(Debug, Default)]
pub struct Leaving {
    state: Mutex<LeavingState>,
    stage: watch::Sender<MoveStage>,
}

/// State of a move.
#[derive(Debug, Default)]
pub struct LeavingState {
    pub ticket: u64,
    pub still_since: Option<Instant>,
    /// Number of the last word in the log.
    pub left: Option<u64>,
}

impl Leaving {
    pub fn state(&self) -> MutexGuard<'_, LeavingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stage(&self) -> MoveStage {
        *self.stage.borrow()
    }

    /// Stages from now on.
    pub fn stages(&self) -> watch::Receiver<MoveStage> {
        self.stage.subscribe()
    }

    /// True if a request is not answered now: the place stands still, and it is no step of the move, nor a question
    /// whether somebody is here.
    pub fn holds(&self, request: &Request) -> bool {
        let passes =
            |operation: &Operation| matches!(operation, Operation::Leave { .. } | Operation::Age);
        let passes = !request.operations.is_empty()
            && request.operations.iter().all(|(_, operation)| passes(operation));
        self.stage() != MoveStage::Serves && !passes
    }

    /// Number of the last word in the log, if it was said, and this request is who has it said.
    pub fn left_by(&self, request: &Request) -> Option<u64> {
        let commits = |operation: &Operation| {
            matches!(operation, Operation::Leave { step: LeaveStep::Commit { .. }, .. })
        };
        let commits = request.operations.iter().any(|(_, operation)| commits(operation));
        self.state().left.filter(|_| commits)
    }

    /// Sets the last stage: who has taken the place was told.
    pub fn set_left(&self) {
        self.stage.send_replace(MoveStage::Left);
    }

    /// Returns when the place does not stand still; an error if it has left.
    pub async fn serves(&self) -> Result<(), ()> {
        let mut stages = self.stages();
        match stages.wait_for(|stage| *stage != MoveStage::Still).await.map(|stage| *stage) {
            Ok(MoveStage::Serves) => Ok(()),
            _ => Err(()),
        }
    }

    /// Has the place go on, if it has stood still for too long.
    pub async fn thaw_when_due(&self) {
        let mut stages = self.stages();
        loop {
            let since = {
                let state = self.state();
                state.still_since.filter(|_| state.left.is_none())
            };
            match since {
                Some(since) => {
                    tokio::time::sleep_until((since + STILL).into()).await;
                    let mut state = self.state();
                    if state.still_since == Some(since) && state.left.is_none() {
                        self.thaw(&mut state);
                    }
                    return;
                }
                // Its sender is this one's.
                None => _ = stages.changed().await,
            }
        }
    }

    /// Has the place stand still for this move.
    pub fn freeze(&self, state: &mut LeavingState, ticket: u64) {
        (state.ticket, state.still_since) = (ticket, Some(Instant::now()));
        self.stage.send_replace(MoveStage::Still);
    }

    /// Has the place go on.
    pub fn thaw(&self, state: &mut LeavingState) {
        (state.ticket, state.still_since) = (0, None);
        self.stage.send_replace(MoveStage::Serves);
    }
}
