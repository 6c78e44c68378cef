//! A place's answers to what comes over a line: on the thread of its owner, as all others.

use kumiki_resource::Id;
use kumiki_slot::far::Answered;

use crate::lane::{Binding, Head, MOST_BOUND};
use crate::parts::{Begun, Quick, caught, refused};
use crate::site::Site;
use crate::wire::{self, Operation, Refusal, Why};

/// Bytes of a refusal's text on a line, at most.
const MOST_TEXT: usize = 1024;

/// Program parts of one lane that have numbers.
#[derive(Default)]
pub(crate) struct Bindings(Vec<Option<(Id, Quick)>>);

impl Site {
    /// Answers a message of a line: the answer, or the refusal, is in `reply` then, of `room` bytes at most.
    #[inline]
    pub(crate) fn on_line(
        &self,
        bound: &mut Bindings,
        message: &[u8],
        reply: &mut Vec<u8>,
        room: usize,
    ) -> Answered {
        reply.clear();
        let outcome = match Head::read(message) {
            Some((Head::Call(number), input)) => self.called(bound, number, input, reply),
            Some((head, body)) => self.asked(bound, head, body, reply),
            None => Err(Refusal::new(Why::Unreadable, "a message of a line has another head")),
        };
        match outcome {
            Ok(()) if reply.len() <= room => Answered::Answer,
            Ok(()) => self.refusal(reply, too_large(reply.len(), room)),
            Err(refusal) => self.refusal(reply, refusal),
        }
    }

    #[inline]
    fn called(
        &self,
        bound: &Bindings,
        number: u32,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Some((id, quick)) = bound.0.get(number as usize).copied().flatten() else {
            let text = format!("no program part has number {number} on this line");
            return Err(Refusal::new(Why::Unreadable, text));
        };
        let run = || caught(|| quick(&self.interface, id, input, reply));
        self.interface.run(self.place, run).unwrap_or_else(|error| Err(refused(&error)))
    }

    #[cold]
    fn asked(
        &self,
        bound: &mut Bindings,
        head: Head,
        body: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let unreadable = |error: rmp_serde::decode::Error| {
            Refusal::new(Why::Unreadable, format!("the message cannot be read: {error}"))
        };
        if let Head::Bind(number) = head {
            let number = number as usize;
            if number >= MOST_BOUND {
                let text = format!("number {number} of {MOST_BOUND} on one line");
                return Err(Refusal::new(Why::Full, text));
            }
            let binding: Binding = wire::read(body).map_err(unreadable)?;
            let found = self.parts.bind(&self.allow, self.place, &binding)?;
            bound.0.resize(bound.0.len().max(number + 1), None);
            bound.0[number] = Some(found);
            return Ok(());
        }
        let operation: Operation = wire::read(body).map_err(unreadable)?;
        match &operation {
            Operation::Hello { .. } | Operation::Watch => {
                let text = "leases and news are asked for at a place's socket, and not on a line";
                return Err(Refusal::new(Why::Unreadable, text));
            }
            Operation::Call { kind, part, .. } => self.parts.runs_at_once(kind, part)?,
            _ => {}
        }
        let run = || match operation.has_effect() {
            false => Begun::Ran(self.look(&operation)),
            true => self.parts.run(&self.allow, &self.interface, self.place, &operation, false),
        };
        let begun = self.interface.run(self.place, run).map_err(|error| refused(&error))?;
        match begun {
            Begun::Ran(outcome) => reply.extend_from_slice(&outcome?),
            Begun::Blocks(_) => unreachable!("it was asked whether it runs at once"),
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self, reply: &mut Vec<u8>, mut refusal: Refusal) -> Answered {
        refusal.text.truncate(refusal.text.floor_char_boundary(MOST_TEXT));
        reply.clear();
        // A number and a text can be written.
        let _ = wire::named_into(&refusal, reply);
        Answered::Refusal
    }
}

fn too_large(bytes: usize, room: usize) -> Refusal {
    let text = format!("its answer has {bytes} bytes, and a line has room for {room}; it has run");
    Refusal::new(Why::AnswerTooLarge, text)
}
