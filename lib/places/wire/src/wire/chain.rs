//! A chain as one operation: calls of which each takes what the one before has given.
//!
//! A place runs those steps from the first on that are its own and do not block. It may ask other places for those behind
//! them. Its answer says how many have run, with what each has given, and its client goes on from there.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::wire::{Operation, Outcome, Refusal, Why, named};

/// Steps of one operation, at most; a longer chain is more than one.
pub const MOST_STEPS: usize = 64;

/// Bytes of answers with which a place begins no further step: there is to be room for what that gives.
#[doc(hidden)]
pub const GATHERED: usize = 4096;

/// A step of a chain: a call without its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCall {
    /// Place of the resource.
    pub place: String,
    /// Number of the place's life.
    pub life: u64,
    /// Number of the resource.
    pub id: u64,
    /// Kind of the resource.
    pub kind: String,
    /// Name of the part of that kind.
    pub part: String,
    /// The part's version that the client knows.
    pub version: u32,
}

impl StepCall {
    /// Makes a call alone of it.
    #[doc(hidden)]
    pub fn call(&self, input: Bytes) -> Operation {
        let StepCall { id, kind, part, version, .. } = self.clone();
        Operation::Call { id, kind, part, version, input }
    }
}

/// Asker of other places for the later steps of a chain.
#[doc(hidden)]
pub trait Forward: fmt::Debug + Send + Sync {
    /// Has these steps run where their resources are, as far as it goes.
    fn forward(&self, steps: &[StepCall], input: Bytes) -> ChainReply;
}

/// Answer to a chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainReply {
    /// Answers of the steps that have run, from the first on.
    pub answers: Vec<Bytes>,
    /// Refusal of the step behind them, which has not run, or of which it says more. None if all have run, or the rest is
    /// for the client to go on with.
    pub refusal: Option<Refusal>,
}

#[doc(hidden)]
impl ChainReply {
    /// Bytes of its answers.
    pub fn gathered(&self) -> usize {
        self.answers.iter().map(Bytes::len).sum()
    }

    /// Writes it, in so many bytes and [`BESIDE`]: answers that have no room are told by name.
    pub fn outcome(mut self, most: usize) -> Outcome {
        if let Some(Refusal { text, .. }) = &mut self.refusal {
            let end = (0..=MOST_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or_default());
        }
        let mut bytes = 0;
        let has_room = |answer: &&Bytes| {
            bytes += ANSWER + answer.len();
            bytes <= most
        };
        let fit = self.answers.iter().take_while(has_room).count();
        if fit < self.answers.len() {
            let (more, bytes) = (self.answers.len() - fit - 1, self.answers[fit].len());
            self.answers.truncate(fit);
            let text = format!(
                "its answer has {bytes} bytes, for which a message had no room; it has run, and so have {more} \
                 steps behind it"
            );
            self.refusal = Some(Refusal::new(Why::AnswerTooLarge, text));
        }
        named(&self).map_err(|error| {
            let text = format!("its answers cannot be written as MessagePack: {error}");
            Refusal::new(Why::AnswerTooLarge, text)
        })
    }
}

/// Bytes of what is answered beside the answers, at most.
#[doc(hidden)]
pub const BESIDE: usize = 2048;
/// Bytes of a refusal's text, at most.
const MOST_TEXT: usize = 1024;
/// Bytes of an answer beside what it holds, at most.
const ANSWER: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::read;

    fn reply_of_long_text() -> ChainReply {
        let refusal = Some(Refusal::new(Why::Panicked, "\u{1F4A5}".repeat(10_000)));
        ChainReply { answers: vec![Bytes::from_static(b"\x07")], refusal }
    }

    #[test]
    fn what_has_no_room_is_told_and_what_has_is_given() {
        let answer = |bytes: usize| Bytes::from(vec![7; bytes]);
        let reply =
            ChainReply { answers: vec![answer(10), answer(100), answer(10)], refusal: None };
        assert_eq!(reply.gathered(), 120);
        let whole = reply.clone().outcome(1000).unwrap();
        assert_eq!(read::<ChainReply>(&whole).unwrap(), reply);
        let cut = read::<ChainReply>(&reply.outcome(60).unwrap()).unwrap();
        assert_eq!(cut.answers, [answer(10)]);
        let said = reply_of_long_text().outcome(60).unwrap();
        assert!(said.len() < 60 + BESIDE, "{}", said.len());
        let refusal = cut.refusal.unwrap();
        assert_eq!(refusal.why, Why::AnswerTooLarge as u16);
        assert!(
            refusal.text.contains("100 bytes") && refusal.text.contains("1 steps"),
            "{refusal:?}"
        );
    }
}
