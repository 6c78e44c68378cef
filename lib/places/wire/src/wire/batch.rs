//! Many calls of one program part as one operation, where what each takes is a word.
//!
//! A batch has a serial of its own and one for each of its calls after that. Its answer has a word for each call,
//! which is kept with the lease under the batch's serial; what is no word (bytes, a refusal) is kept under
//! the call's own, and goes along as far as there is room. What did not find room the client asks for as any
//! answer that is kept, by a call with that serial.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::wire::scalar::{Form, Scalar};
use crate::wire::{self, CALL, Operation, Outcome};

/// Bytes of an answer: its scalar's form, the word.
const GIVEN: usize = 9;

/// A batch's answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchReply {
    /// A word for each call.
    pub words: Bytes,
    /// Answers that are no words, by their calls' numbers.
    pub others: Vec<(u32, Outcome)>,
}

/// Calls that a client packs.
#[derive(Debug, Default)]
pub struct Calls(Vec<u8>);

impl Calls {
    /// Calls of which so many bytes of a message may be.
    pub fn most(bytes: usize) -> usize {
        (bytes / CALL).clamp(1, wire::MOST_OPERATIONS)
    }

    pub fn push(&mut self, id: u64, input: Scalar) {
        self.0.push(input.form as u8);
        self.0.extend_from_slice(&id.to_le_bytes());
        self.0.extend_from_slice(&input.word.to_le_bytes());
    }

    pub fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

/// The number of a batch's calls, if these are any.
pub fn count(calls: &[u8]) -> Option<usize> {
    (calls.len() % CALL == 0).then_some(calls.len() / CALL)
}

/// Each call's id and input, or none of one that is of no form.
pub fn calls(calls: &[u8]) -> impl Iterator<Item = Option<(u64, Scalar)>> {
    calls.chunks_exact(CALL).map(|call| {
        let (form, id_and_word) = call.split_first()?;
        let (id, word) = id_and_word.split_first_chunk::<8>()?;
        let (form, word) = (Form::of(*form)?, u64::from_le_bytes(*word.first_chunk()?));
        Some((u64::from_le_bytes(*id), Scalar { form, word }))
    })
}

/// Answers that a place packs.
#[derive(Debug)]
pub struct Words(Vec<u8>);

impl Words {
    pub fn of(count: usize) -> Words {
        Words(Vec::with_capacity(GIVEN * count))
    }

    /// The next call's: none if it is no word.
    pub fn push(&mut self, answer: Option<Scalar>) {
        self.0.push(answer.map_or(0, |scalar| scalar.form as u8));
        self.0.extend_from_slice(&answer.map_or(0, |scalar| scalar.word).to_le_bytes());
    }

    pub fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

/// Each call's answer, or none of one that is no word.
pub fn words(words: &[u8]) -> impl Iterator<Item = Option<Scalar>> {
    words.chunks_exact(GIVEN).map(|given| {
        let (form, word) = given.split_first()?;
        Some(Scalar { form: Form::of(*form)?, word: u64::from_le_bytes(*word.first_chunk()?) })
    })
}

/// A batch's answer, as its client knows it.
#[derive(Debug)]
pub struct Known {
    pub words: Bytes,
    pub others: Vec<(u32, Outcome)>,
    /// Calls that have an answer, which is still at the place, by their numbers.
    pub kept: Vec<(u32, Operation)>,
}

/// Reads what a place answers to a batch, an operation that has these calls.
///
/// # Errors
/// Why it is no answer to it.
pub fn read(batch: &Operation, given: &[u8]) -> Result<Known, String> {
    let Operation::Each { kind, part, version, calls: asked } = batch else {
        return Err("it answers a batch, and was not asked for one".to_owned());
    };
    let BatchReply { words: answers, others } = wire::read(given)
        .map_err(|error| format!("its answer to a batch cannot be read: {error}"))?;
    let count = count(asked).unwrap_or(0);
    if answers.len() != GIVEN * count || others.iter().any(|(number, _)| *number as usize >= count)
    {
        return Err("it answers another number of calls".to_owned());
    }
    if answers.chunks(GIVEN).any(|answer| answer[0] != 0 && Form::of(answer[0]).is_none()) {
        return Err("it answers by words of a form that is not known here".to_owned());
    }
    let mut come = vec![false; if others.is_empty() { 0 } else { count }];
    others.iter().for_each(|(number, _)| come[*number as usize] = true);
    let calls = (0_u32..).zip(calls(asked).zip(words(&answers)));
    let kept = calls.filter_map(|(number, (call, word))| {
        let has_come = word.is_some() || come.get(number as usize).is_some_and(|come| *come);
        let (id, input) = call.filter(|_| !has_come)?;
        let (kind, part, version) = (kind.clone(), part.clone(), *version);
        Some((number, Operation::Call { id, kind, part, version, input: input.packed() }))
    });
    let kept = kept.collect();
    Ok(Known { words: answers, others, kept })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Refusal, Why};

    fn batch(inputs: &[i64]) -> Operation {
        let mut calls = Calls::default();
        inputs.iter().for_each(|input| calls.push(7, Scalar::of(input).unwrap()));
        let (kind, part) = ("counter".to_owned(), "add".to_owned());
        Operation::Each { kind, part, version: 1, calls: calls.into_bytes() }
    }

    fn batch_answer(words: &[Option<i64>], others: Vec<(u32, Outcome)>) -> Vec<u8> {
        let mut packed = Words::of(words.len());
        words.iter().for_each(|word| packed.push(word.map(|word| Scalar::of(&word).unwrap())));
        wire::named(&BatchReply { words: packed.into_bytes(), others }).unwrap().into()
    }

    #[test]
    fn what_goes_in_comes_out() {
        let Operation::Each { calls: packed, .. } = batch(&[1, -1, i64::MAX]) else {
            unreachable!()
        };
        assert_eq!(count(&packed), Some(3));
        let read: Vec<_> = calls(&packed).map(Option::unwrap).collect();
        assert!(read.iter().all(|(id, _)| *id == 7));
        let read: Vec<i64> = read.iter().map(|(_, input)| input.read().unwrap()).collect();
        assert_eq!(read, [1, -1, i64::MAX]);
        assert_eq!(count(&packed[1..]), None);
        let mut wrong = packed.to_vec();
        wrong[17] = 7;
        assert_eq!(
            calls(&wrong).map(|call| call.is_some()).collect::<Vec<_>>(),
            [true, false, true]
        );
    }

    #[test]
    fn what_found_no_room_is_asked_for_by_itself() {
        let refusal = Err(Refusal::new(Why::Stale, "gone"));
        let answer = batch_answer(&[Some(5), None, None], vec![(2, refusal.clone())]);
        let known = read(&batch(&[1, 2, 3]), &answer).unwrap();
        let read: Vec<Option<i64>> =
            words(&known.words).map(|word| word.map(|word| word.read().unwrap())).collect();
        assert_eq!(read, [Some(5), None, None]);
        assert_eq!(known.others, [(2, refusal)]);
        let input = wire::named(&2_i64).unwrap();
        let (kind, part) = ("counter".to_owned(), "add".to_owned());
        assert_eq!(known.kept, [(1, Operation::Call { id: 7, kind, part, version: 1, input })]);
    }

    #[test]
    fn an_answer_to_something_else_is_none() {
        let batch = batch(&[1, 2]);
        for wrong in [
            batch_answer(&[Some(1)], vec![]),
            batch_answer(&[Some(1); 3], vec![]),
            // Of a later version: there is no answer to ask for again.
            {
                let words = [&[7_u8; 9][..], &[0; 9]].concat();
                wire::named(&BatchReply { words: words.into(), others: vec![] }).unwrap().into()
            },
            batch_answer(&[None, None], vec![(2, Ok(Bytes::new()))]),
            b"\xc1".to_vec(),
            vec![],
        ] {
            read(&batch, &wrong).unwrap_err();
        }
        read(&Operation::Load, &batch_answer(&[], vec![])).unwrap_err();
    }
}
