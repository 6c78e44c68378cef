//! A place's part of a chain: the steps of its own, on the thread of its owner, and those behind them that it may ask
//! other places for.

use std::sync::Arc;

use bytes::Bytes;

use crate::place::parts::Handled;
use crate::place::site::{Site, too_large};
use crate::wire::chain::{BESIDE, ChainReply, Forward, GATHERED, MOST_STEPS, StepCall};
use crate::wire::{Refusal, Why};

impl Site {
    /// Runs a chain's steps from the first on, as far as they are this place's and do not block; or has the rest run by
    /// other places, on a thread of its own.
    pub(crate) fn chain(&self, steps: &[StepCall], input: &Bytes, limit: usize) -> Handled {
        let refused = |text: String| Handled::Ran(Err(Refusal::new(Why::Unreadable, text)));
        if steps.len() > MOST_STEPS {
            let count = steps.len();
            return refused(format!("{count} steps of one chain are more than {MOST_STEPS}"));
        }
        let limit = limit.saturating_sub(BESIDE);
        let mut ran = ChainReply::default();
        for step in steps.iter().take_while(|step| self.is_own(step)) {
            let input = ran.answers.last().unwrap_or(input).clone();
            let blocks = self.parts.runs_at_once(&step.kind, &step.part);
            match blocks {
                Err(refusal) if ran.answers.is_empty() => return Handled::Ran(Err(refusal)),
                // Its client asks for it alone.
                Err(_) => return Handled::Ran(ran.outcome(limit)),
                Ok(()) if ran.gathered() > GATHERED => return Handled::Ran(ran.outcome(limit)),
                Ok(()) => {}
            }
            let Handled::Ran(outcome) = self.execute(&step.call(input), limit) else {
                // It was asked whether it runs at once.
                return refused(format!("{}.{} may block", step.kind, step.part));
            };
            match outcome.and_then(|answer| too_large(answer, limit)) {
                Ok(answer) => ran.answers.push(answer),
                Err(refusal) if ran.answers.is_empty() => return Handled::Ran(Err(refusal)),
                Err(refusal) => {
                    ran.refusal = Some(self.named(refusal));
                    return Handled::Ran(ran.outcome(limit));
                }
            }
        }
        match ran.answers.last() {
            None => refused(format!("a chain's first step is of {}, if it is asked", self.name)),
            Some(last) => match self.further(&steps[ran.answers.len()..], &ran) {
                None => Handled::Ran(ran.outcome(limit)),
                Some((forward, rest)) => {
                    let input = last.clone();
                    Handled::Blocks(Box::new(move || {
                        let ChainReply { answers, refusal } = forward.forward(&rest, input);
                        ran.answers.extend(answers);
                        ran.refusal = refusal;
                        ran.outcome(limit)
                    }))
                }
            },
        }
    }

    fn is_own(&self, step: &StepCall) -> bool {
        step.place == self.name && step.life == self.life
    }

    /// Finds the asker for the steps that are left, and those of them that the allow-list lets it ask for. What is killed
    /// meanwhile has done nobody knows what, so that a durable place asks for none.
    fn further(
        &self,
        steps: &[StepCall],
        ran: &ChainReply,
    ) -> Option<(Arc<dyn Forward>, Vec<StepCall>)> {
        let forward = self.forward.as_ref().filter(|_| self.keeping.is_none())?;
        let may = |step: &&StepCall| self.allow.chains(&step.place);
        let steps: Vec<StepCall> = steps.iter().take_while(may).cloned().collect();
        let has_room = self.threads.have_room() && ran.gathered() <= GATHERED;
        (has_room && !steps.is_empty()).then(|| (Arc::clone(forward), steps))
    }
}
