//! One program part on many resources, wherever they are: what one place is to do travels together.

use std::collections::HashMap;
use std::sync::Arc;

use kumiki_resource::Rights;
use kumiki_resource::kind::Kind;

use crate::client::{Client, call, decode, of_outcome};
use crate::error::{Error, Result};
use crate::part::Part;
use crate::reference::Reference;
use crate::wire::batch::{self, Calls};
use crate::wire::scalar::Scalar;
use crate::wire::{Operation, Outcome};

/// Calls for one life of a place, and where their results go.
struct Group<I> {
    place: Arc<str>,
    life: u64,
    numbers: Vec<usize>,
    /// Resources' ids and what the part takes.
    calls: Vec<(u64, I)>,
}

impl<I> Group<I> {
    fn is_of(&self, place: &Arc<str>, life: u64) -> bool {
        self.life == life && (Arc::ptr_eq(&self.place, place) || self.place == *place)
    }
}

impl Client {
    /// Runs a program part on each of these resources, with what stands beside it. What one
    /// place is to do travels together and runs there in this order; places work at the same
    /// time. The results are in this order, too.
    ///
    /// Where what the part takes is a number, a truth or nothing, it travels as one word, and so does such an
    /// answer: then a call of a batch costs some ten nanoseconds at each side, beside the message.
    ///
    /// # Errors
    /// Of each by itself, as [`call`](Self::call).
    pub async fn each<'a, P: Part>(
        &self,
        all: impl IntoIterator<Item = (&'a Reference<P::Kind>, P::In)>,
    ) -> Vec<Result<P::Out>> {
        let mut results: Vec<Option<Result<P::Out>>> = Vec::new();
        let mut groups: Vec<Group<P::In>> = Vec::new();
        let mut by_place: HashMap<(Arc<str>, u64), usize> = HashMap::new();
        let mut last = 0;
        for (number, (on, input)) in all.into_iter().enumerate() {
            if let Err(error) = on.require(Rights::USE) {
                results.push(Some(Err(error)));
                continue;
            }
            results.push(None);
            // Mostly it is the place of the one before.
            if !groups.get(last).is_some_and(|group| group.is_of(on.shared_place(), on.life())) {
                let new = groups.len();
                last = *by_place.entry((Arc::clone(on.shared_place()), on.life())).or_insert(new);
                if last == new {
                    let (place, life) = (Arc::clone(on.shared_place()), on.life());
                    groups.push(Group { place, life, numbers: Vec::new(), calls: Vec::new() });
                }
            }
            groups[last].numbers.push(number);
            groups[last].calls.push((on.id().to_u64(), input));
        }
        let asked = groups.into_iter().map(|group| async move {
            let Group { place, life, numbers, calls } = group;
            (numbers, self.at_one::<P>(&place, life, calls).await)
        });
        for (numbers, answers) in futures_util::future::join_all(asked).await {
            for (number, answer) in numbers.into_iter().zip(answers) {
                results[number] = Some(answer);
            }
        }
        let all = results.into_iter();
        all.map(|result| result.expect("each was asked for, or refused")).collect()
    }

    /// Calls at one place: by words if all that they take are some, and there are several.
    async fn at_one<P: Part>(
        &self,
        place: &str,
        life: u64,
        calls: Vec<(u64, P::In)>,
    ) -> Vec<Result<P::Out>> {
        let words = |(id, input): &(u64, P::In)| Some((*id, Scalar::of(input)?));
        if calls.len() > 1 {
            if let Some(words) = calls.iter().map(words).collect::<Option<Vec<_>>>() {
                return self.by_words::<P>(place, life, &words).await;
            }
        }
        let mut operations = Vec::with_capacity(calls.len());
        let mut results = Vec::with_capacity(calls.len());
        for (id, input) in &calls {
            results.push(match call::<P>(*id, input) {
                Ok(operation) => {
                    operations.push(operation);
                    None
                }
                Err(error) => Some(Err(error)),
            });
        }
        let mut answers = self.ask_all(place, life, operations).await.into_iter();
        let mut next = || answers.next().expect("one answer an operation");
        let all = results.into_iter();
        all.map(|one| one.unwrap_or_else(|| decode(P::NAME, &next()?.1))).collect()
    }

    /// Calls at one place, by batches that fit into messages.
    async fn by_words<P: Part>(
        &self,
        place: &str,
        life: u64,
        calls: &[(u64, Scalar)],
    ) -> Vec<Result<P::Out>> {
        let session = self.session(place);
        let deadline = self.deadline();
        let mut results = Vec::with_capacity(calls.len());
        for chunk in calls.chunks(Calls::most(self.inner.limit() / 2)) {
            let mut packed = Calls::default();
            chunk.iter().for_each(|(id, input)| packed.push(*id, *input));
            let batch = Operation::Each {
                kind: <P::Kind as Kind>::NAME.to_owned(),
                part: P::NAME.to_owned(),
                version: P::VERSION,
                calls: packed.into_bytes(),
            };
            match self.inner.once(&session, life, vec![batch], deadline).await {
                Ok((_, answers)) => results.extend(unpacked::<P>(place, answers)),
                Err(failure) => results.extend(chunk.iter().map(|_| Err(failure.error(place)))),
            }
        }
        results
    }
}

/// The results of a batch, from the answers to its serials.
fn unpacked<P: Part>(place: &str, answers: Vec<Option<Outcome>>) -> Vec<Result<P::Out>> {
    let mut answers = answers.into_iter();
    let words = answers.next().flatten().expect("it has one of its own");
    let words = match words {
        Ok(words) => words,
        Err(refusal) => {
            let refused = |answer: Option<Outcome>| answer.unwrap_or_else(|| Err(refusal.clone()));
            return answers.map(|answer| result::<P>(place, refused(answer))).collect();
        }
    };
    let all = batch::words(&words).zip(answers);
    all.map(|(word, other)| match word {
        Some(word) => word.read().map_err(|error| Error::undecodable(P::NAME, &error)),
        None => result::<P>(place, other.expect("it is asked for until it is there")),
    })
    .collect()
}

fn result<P: Part>(place: &str, outcome: Outcome) -> Result<P::Out> {
    decode(P::NAME, &of_outcome(place, outcome)?)
}
