//! A place's answers to batches: on the thread of its owner, as all others.

use bytes::Bytes;
use kumiki_resource::Handle;

use crate::lease::Awaited;
use crate::lease::{Before, Lease, LeasePool};
use crate::place::parts::{Longer, Quick, answer, at, caught};
use crate::place::site::{Now, Site, too_large};
use crate::wire::batch::{self, BatchReply, Words};
use crate::wire::scalar::Scalar;
use crate::wire::{Operation, Outcome, Refusal, Why};

/// Bytes of a batch's answer beside its words and those that are none, at most.
const BESIDE: usize = 32;
/// Bytes of one that is none beside what it holds, at most.
const OTHER: usize = 32;

impl Site {
    /// Runs a batch's calls, or gives the answers that they gave before, in `room` bytes if there is room.
    pub(crate) fn batch(
        &self,
        lease: &Handle<Lease>,
        serial: u64,
        batch: &Operation,
        limit: usize,
        room: usize,
    ) -> Now {
        // Each of its calls may give an answer that is kept by itself.
        let words = match self.before(lease, serial, batch.serials()) {
            Before::Ran(words) => words,
            Before::Refused(refusal) => Err(self.for_good(lease, serial, refusal)),
            // One that runs has calls that block: with them it is done when each has an answer.
            Before::New if self.keeping.is_some() => match self.has_room(batch) {
                Err(refusal) => Err(self.for_good(lease, serial, refusal)),
                Ok(()) => match self.words(lease, serial, batch, limit) {
                    Ok(words) => {
                        let kept = self.keep(lease, serial, words.clone());
                        self.note(lease, serial, batch, &words);
                        kept.and(words)
                    }
                    // A durable place has no parts that block.
                    Err(of) => return Err(of),
                },
            },
            Before::New | Before::Runs => match self.words(lease, serial, batch, limit) {
                Ok(words) => self.keep(lease, serial, words.clone()).and(words),
                Err(of) => {
                    // It was found a moment ago, by the same thread.
                    let _ = self.interface.with(lease, |lease, _| lease.runs(serial));
                    return Err(of);
                }
            },
        };
        Ok(words.and_then(|words| self.with_others(lease, serial, words, room)))
    }

    /// Runs the calls, and keeps what they give that is no word.
    fn words(
        &self,
        lease: &Handle<Lease>,
        serial: u64,
        batch: &Operation,
        limit: usize,
    ) -> Result<Outcome, Awaited> {
        let Operation::Each { kind, part, version, calls } = batch else {
            return Ok(Err(Refusal::new(Why::Unreadable, "an operation that is no batch")));
        };
        let Some(count) = batch::count(calls) else {
            let text = format!("{} bytes are no whole calls", calls.len());
            return Ok(Err(Refusal::new(Why::Unreadable, text)));
        };
        if serial.checked_add(batch.serials() as u64).is_none() {
            let text = format!("a batch of {count} calls has no serial {serial}");
            return Ok(Err(Refusal::new(Why::Unreadable, text)));
        }
        let quick = match self.parts.quick(&self.allow, kind, part, *version) {
            Ok(quick) => quick,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut words = Words::of(count);
        let mut blocks = None;
        let mut longer = Longer::default();
        // Whether one has given more than a word: only then may there be no room to keep it.
        let mut keeps = false;
        for (serial, call) in (serial + 1..).zip(batch::calls(calls)) {
            let Some((id, input)) = call else {
                let refusal = Refusal::new(Why::BadInput, "what it takes is of no form");
                let _ = self.keep(lease, serial, Err(refusal));
                words.push(None);
                continue;
            };
            let Some(quick) = quick else {
                let (kind, part, version) = (kind.clone(), part.clone(), *version);
                let call = Operation::Call { id, kind, part, version, input: input.packed() };
                if let Err(of) = self.once(lease, serial, &call, limit) {
                    blocks.get_or_insert(of);
                }
                words.push(None);
                continue;
            };
            let outcome = match keeps.then(|| self.before(lease, serial, 0)) {
                Some(Before::Refused(refusal)) => Err(refusal),
                _ => match self.called(quick, id, input, &mut longer) {
                    Ok(Some(word)) => {
                        words.push(Some(word));
                        continue;
                    }
                    Ok(None) => too_large(Bytes::copy_from_slice(&longer.reply), limit),
                    Err(refusal) => Err(refusal),
                },
            };
            let _ = self.keep(lease, serial, outcome);
            words.push(None);
            keeps = true;
        }
        blocks.map_or_else(|| Ok(Ok(words.into_bytes())), Err)
    }

    /// Runs one: what it gives, or nothing if that is in `longer`.
    fn called(
        &self,
        quick: Quick,
        id: u64,
        input: Scalar,
        longer: &mut Longer,
    ) -> Result<Option<Scalar>, Refusal> {
        caught(|| {
            let id = at(self.place, id)?;
            let word = (quick.by_scalar)(&self.interface, id, input, longer);
            longer.refusal.take().map_or(Ok(word), Err)
        })
    }

    /// The answer to a batch: its words, and of the others what there is room for.
    fn with_others(
        &self,
        lease: &Handle<Lease>,
        serial: u64,
        words: Bytes,
        room: usize,
    ) -> Outcome {
        let mut room = room.saturating_sub(BESIDE + words.len());
        let mut others = Vec::new();
        let calls = (0_u32..).zip(batch::words(&words)).filter(|(_, word)| word.is_none());
        for (number, _) in calls {
            let kept =
                |lease: &mut Lease, _: &mut LeasePool| lease.kept(serial + 1 + u64::from(number));
            let Ok(Some(outcome)) = self.interface.with(lease, kept) else { continue };
            let bytes = outcome.as_ref().map_or_else(|refusal| refusal.text.len(), Bytes::len);
            let Some(left) = room.checked_sub(OTHER + bytes) else { continue };
            room = left;
            others.push((number, outcome));
        }
        answer(&BatchReply { words, others })
    }
}
