//! Steps of a chain by messages: one request for as many as their places will run together.

use bytes::Bytes;

use crate::client::{Client, decode};
use crate::error::{Error, Result};
use crate::wire::chain::{ChainReply, MOST_STEPS, StepCall};
use crate::wire::{Operation, Why};

impl Client {
    /// Has the first step's place run as many of these steps as it will, one at least.
    ///
    /// # Errors
    /// As [`call`](Self::call), of the first step. [`Error::Unknown`] is of all of them.
    pub(crate) async fn run_steps(&self, steps: Vec<StepCall>, input: Bytes) -> Result<ChainReply> {
        let count = steps.len().min(MOST_STEPS);
        let (place, life) = (steps[0].place.clone(), steps[0].life);
        let first = steps[0].call(input.clone());
        if count > 1 {
            let steps = steps.into_iter().take(count).collect();
            match self.ask_with_life(&place, life, Operation::Chain { steps, input }).await {
                Ok((_, answer)) => {
                    return reply(count, &answer).map_err(|why| unknown(&place, why));
                }
                // It has not run: it blocks, the place knows no chains, or there is room for it without the others.
                Err(Error::Refused { why: Why::Blocks | Why::Unreadable, .. }) => {}
                Err(Error::TooLarge { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let (_, answer) = self.ask_with_life(&place, life, first).await?;
        Ok(ChainReply { answers: vec![answer], refusal: None })
    }
}

/// Reads what so many steps have come to.
fn reply(count: usize, answer: &[u8]) -> Result<ChainReply, String> {
    let reply: ChainReply = decode("a chain", answer).map_err(|error| error.to_string())?;
    let run = reply.answers.len();
    match (1..=count).contains(&run) && (run < count || reply.refusal.is_none()) {
        true => Ok(reply),
        false => Err(format!("it answers {run} of {count} steps")),
    }
}

/// An answer that means nothing: whether they have run nobody knows.
fn unknown(place: &str, why: String) -> Error {
    Error::Unknown { place: place.to_owned(), why }
}
