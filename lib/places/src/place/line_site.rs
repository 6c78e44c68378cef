//! A place's answers to what comes over a line: on the thread of its owner, as all others.

use kumiki_resource::Id;
use kumiki_slot::far::{Message, Server};

use crate::place::parts::{Handled, Longer, Quick, refused};
use crate::place::site::Site;
use crate::wire::lane::{Binding, Head, Lane, MOST_BOUND};
use crate::wire::scalar::Scalar;
use crate::wire::{self, Operation, Refusal, Why};

/// Bytes of a refusal's text on a line, at most.
const MOST_TEXT: usize = 1024;

/// Program parts of one lane that have numbers.
#[derive(Default)]
pub(crate) struct Bindings(Vec<Option<(Id, Quick)>>);

/// An answer to a request.
pub(crate) enum LineReply {
    Scalar(Scalar),
    /// The answer is in the reply.
    Bytes,
    /// The answer is in the reply, and the line has no room for it.
    Long,
}

/// Bytes of a request that has more than a word, and of an answer.
#[derive(Default)]
pub(crate) struct Bytes {
    asked: Vec<u8>,
    longer: Longer,
}

impl Bytes {
    /// The answer that was given by bytes, or the refusal.
    pub(crate) fn reply(&self) -> &[u8] {
        &self.longer.reply
    }

    /// Writes a refusal as a line has room for it.
    #[cold]
    pub(crate) fn refuse(&mut self, mut refusal: Refusal) {
        let reply = &mut self.longer.reply;
        let text = &mut refusal.text;
        let end = (0..=MOST_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        reply.clear();
        // A number and a text can be written.
        let _ = wire::named_into(&refusal, reply);
    }
}

impl Site {
    /// Answers a request of a line, which is not told of a panic of the part here.
    #[inline(always)]
    pub(crate) fn on_line(
        &self,
        line: &Server<Lane>,
        bound: &mut Bindings,
        message: &Message,
        bytes: &mut Bytes,
    ) -> Result<LineReply, Refusal> {
        match Head::read(message.head) {
            Some(Head::Call(number, Some(form))) if message.is_word() => {
                let (id, quick) = bound.get(number)?;
                let scalar = Scalar { form, word: message.word };
                match (quick.by_scalar)(&self.interface, *id, scalar, &mut bytes.longer) {
                    Some(scalar) => Ok(LineReply::Scalar(scalar)),
                    None => longer(line, &mut bytes.longer),
                }
            }
            head => self.by_bytes(line, bound, head, message, bytes),
        }
    }

    #[inline(never)]
    fn by_bytes(
        &self,
        line: &Server<Lane>,
        bound: &mut Bindings,
        head: Option<Head>,
        message: &Message,
        bytes: &mut Bytes,
    ) -> Result<LineReply, Refusal> {
        let Bytes { asked, longer: to } = bytes;
        line.read(message, asked);
        match head {
            Some(Head::Call(number, None)) => {
                let (id, quick) = bound.get(number)?;
                if let Some(scalar) = (quick.by_bytes)(&self.interface, *id, asked, to) {
                    return Ok(LineReply::Scalar(scalar));
                }
            }
            Some(Head::Bind(number)) => {
                to.reply.clear();
                self.bind(bound, number, asked)?;
            }
            Some(Head::Operation) => {
                to.reply.clear();
                self.operation(asked, &mut to.reply, line.room())?;
            }
            Some(Head::Call(_, Some(_))) | None => {
                let text = "a message of a line has another head";
                return Err(Refusal::new(Why::Unreadable, text));
            }
        }
        longer(line, to)
    }

    #[cold]
    fn bind(&self, bound: &mut Bindings, number: u32, body: &[u8]) -> Result<(), Refusal> {
        let number = number as usize;
        if number >= MOST_BOUND {
            let text = format!("number {number} of {MOST_BOUND} on one line");
            return Err(Refusal::new(Why::Full, text));
        }
        let binding: Binding = wire::read(body).map_err(|error| unreadable(&error))?;
        let found = self.parts.bind(&self.allow, self.place, &binding)?;
        bound.0.resize(bound.0.len().max(number + 1), None);
        bound.0[number] = Some(found);
        Ok(())
    }

    #[cold]
    fn operation(&self, body: &[u8], reply: &mut Vec<u8>, room: usize) -> Result<(), Refusal> {
        let operation: Operation = wire::read(body).map_err(|error| unreadable(&error))?;
        match &operation {
            Operation::Hello { .. } | Operation::Watch => {
                let text = "leases and news are asked for at a place's socket, and not on a line";
                return Err(Refusal::new(Why::Unreadable, text));
            }
            Operation::Call { kind, part, .. } => self.parts.runs_at_once(kind, part)?,
            _ => {}
        }
        let run = || match operation.has_effect() {
            false => Handled::Ran(self.look(&operation, room)),
            true => self.parts.run(&self.allow, &self.interface, self.place, &operation, false),
        };
        let begun = self.interface.run(self.place, run).map_err(|error| refused(&error))?;
        match begun {
            Handled::Ran(outcome) => reply.extend_from_slice(&outcome?),
            // It was asked whether it runs at once.
            Handled::Blocks(_) => {
                return Err(Refusal::new(Why::Blocks, "it may block, and no line is held up"));
            }
        }
        Ok(())
    }
}

impl Bindings {
    #[inline(always)]
    fn get(&self, number: u32) -> Result<&(Id, Quick), Refusal> {
        match self.0.get(number as usize) {
            Some(Some(bound)) => Ok(bound),
            _ => Err(unbound(number)),
        }
    }
}

/// Gives what a part has given that is no word.
#[inline(never)]
fn longer(line: &Server<Lane>, longer: &mut Longer) -> Result<LineReply, Refusal> {
    if let Some(refusal) = longer.refusal.take() {
        return Err(refusal);
    }
    let has_room = longer.reply.len() <= line.room();
    Ok(if has_room { LineReply::Bytes } else { LineReply::Long })
}

#[cold]
fn unbound(number: u32) -> Refusal {
    let text = format!("no program part has number {number} on this line");
    Refusal::new(Why::Unreadable, text)
}

fn unreadable(error: &wire::Unread) -> Refusal {
    Refusal::new(Why::Unreadable, format!("the message cannot be read: {error}"))
}
