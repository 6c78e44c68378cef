//! Later steps of a chain, asked for by the place that has run the earlier ones: by a control that its server was given.

use std::sync::Arc;

use bytes::Bytes;

use crate::control::Control;
use crate::control::road::Road;
use crate::error::{Error, Result};
use crate::place::serve::Server;
use crate::wire::chain::{ChainReply, Forward, GATHERED, StepCall};
use crate::wire::{Refusal, Why};

impl Server {
    /// Lets its places ask other ones for the later steps of their callers' chains ([`Control::chain`]), so that what a step
    /// gives need not go by the caller. They do so by this control, as its program may, and only those places that the
    /// allow-list names (`chain = ["hostb.*"]`, [`Allow::chaining`](crate::Allow::chaining)); what they are not to ask for,
    /// or cannot reach, a caller asks for itself. Each of them has its own allow-list.
    ///
    /// A place that is [durable](Self::durable) asks for none. The control's home has no part in it.
    #[must_use]
    pub fn chains(self, control: &Control) -> Server {
        self.forwards(Arc::new(control.clone()))
    }
}

impl Forward for Control {
    fn forward(&self, steps: &[StepCall], input: Bytes) -> ChainReply {
        let mut ran = ChainReply::default();
        while let Some(step) = steps.get(ran.answers.len()) {
            if ran.refusal.is_some() || ran.gathered() > GATHERED {
                break;
            }
            let rest = &steps[ran.answers.len()..];
            let input = ran.answers.last().unwrap_or(&input).clone();
            match self.by_way(&step.place, |road| self.hop(road, rest, &input)) {
                Ok(ChainReply { answers, refusal }) => {
                    ran.answers.extend(answers);
                    ran.refusal = refusal;
                }
                Err(error) => {
                    ran.refusal = refusal(error);
                    break;
                }
            }
        }
        ran
    }
}

impl Control {
    /// Has a place run the first of these steps, and those behind it that it will.
    fn hop(&self, road: &Road, steps: &[StepCall], input: &Bytes) -> Result<ChainReply> {
        match road {
            Road::Net(net) => net.run_steps(steps.to_vec(), input.clone(), self.limit),
            Road::Lines(lines) => lines.run_step(&steps[0], input, self.limit),
            // Whoever is served has references of other lives than a home's: it is looked for as others find it.
            Road::Home(_) => Err(Error::Gone { place: steps[0].place.clone() }),
        }
    }
}

/// A step's error as it is told to the chain's caller; none where nothing was done, and the caller is to go on itself.
fn refusal(error: Error) -> Option<Refusal> {
    match error {
        Error::Gone { .. }
        | Error::NotSent { .. }
        | Error::Unanswered { .. }
        | Error::TooLarge { .. }
        | Error::Refused { why: Why::Full, .. } => None,
        Error::Refused { why, text, .. } => Some(Refusal::new(why, text)),
        Error::Unknown { why, .. } => Some(Refusal::new(Why::Died, why)),
        other => Some(Refusal::new(Why::Died, other.to_string())),
    }
}
