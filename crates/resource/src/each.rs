//! Operations that travel together: one request for all that one owner has to do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::desk::Panic;

use crate::answer::Answer;
use crate::core::Core;
use crate::error::{Error, Outcome, Result};
use crate::handle::Handle;
use crate::here::here;
use crate::id::{Id, Place};
use crate::interface::{How, Interface, shared};
use crate::kind::Kind;
use crate::rights::Rights;
use crate::send;

/// One owner's part of a batch: each operation with its number there.
struct OwnersBatch<I> {
    place: Place,
    numbers: Vec<usize>,
    items: Vec<(Id, I)>,
}

impl Interface {
    /// Runs `f` on each of these resources with what stands beside it, by their owners. All
    /// that one owner has to do travels in one request, in which it runs in this order; owners
    /// work at the same time, and the caller's own place while the others do. The results are
    /// in this order, too. It is the way for who has much to ask: many requests under way cost
    /// a cache line's way each.
    ///
    /// ```
    /// use kumiki_resource::{Interface, Memory};
    ///
    /// let interface = Interface::builder().kind::<Memory>().per_core()?;
    /// let places = interface.places();
    /// let all: Vec<_> = (0..8)
    ///     .map(|n| interface.create::<Memory>(places[n % places.len()], None, 1))
    ///     .collect::<Result<_, _>>()?;
    /// let fill = |memory: &mut Memory, _: &mut _, byte: u8| {
    ///     memory.frame(0).map(|frame| frame.fill(byte)).is_some()
    /// };
    /// let filled = interface.each(all.iter().zip(1..), fill);
    /// assert!(filled.into_iter().all(|one| one.is_ok_and(|filled| filled)));
    /// # Ok::<(), kumiki_resource::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of each by itself, as [`with`](Self::with): an operation that fails or panics keeps none
    /// of the others from running. If an owner is gone, or dies meanwhile, or has 32 requests
    /// of this thread's under way, that is the error of all that it was to do; if it dies, those
    /// may have run, all or some.
    pub fn each<'a, K: Kind, I, R, F>(
        &self,
        all: impl IntoIterator<Item = (&'a Handle<K>, I)>,
        f: F,
    ) -> Vec<Result<R>>
    where
        I: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut K, &mut K::Pool, I) -> R + Clone + Send + 'static,
    {
        // Refusals in a word: each result is moved some times.
        let mut results: Vec<Option<Outcome<R>>> = Vec::new();
        let mut parts: Vec<OwnersBatch<I>> = Vec::new();
        for (number, (handle, input)) in all.into_iter().enumerate() {
            let refused = handle.require(self.number(), Rights::USE).err();
            let item = (handle.id(), input);
            let place = item.0.place();
            if refused.is_none() {
                match parts.iter_mut().find(|part| part.place == place) {
                    Some(part) => {
                        part.numbers.push(number);
                        part.items.push(item);
                    }
                    None => {
                        parts.push(OwnersBatch { place, numbers: vec![number], items: vec![item] })
                    }
                }
            }
            results.push(refused.map(|error| Err(error.into())));
        }
        let mut put = |numbers: Vec<usize>, outcomes: Vec<Outcome<R>>| {
            for (number, outcome) in numbers.into_iter().zip(outcomes) {
                results[number] = Some(outcome);
            }
        };
        match self.how() {
            How::Shared(core) => {
                for OwnersBatch { place, numbers, items } in parts {
                    let with = |id, run: &mut dyn FnMut(&mut K, &mut K::Pool)| {
                        shared(core, place)?.with::<K, _>(id, run)
                    };
                    put(numbers, run_all(place, items, &f, with));
                }
            }
            How::PerCore(per_core) => {
                // The others first: they work while this thread does.
                let own = here().map(|here| here.core.place);
                parts.sort_by_key(|part| Some(part.place) == own);
                let started: Vec<_> = parts
                    .into_iter()
                    .map(|OwnersBatch { place, numbers, mut items }| {
                        let f = f.clone();
                        // Memory of this thread's, which comes back to it: what one thread
                        // allocates and another frees costs both of them.
                        let mut outcomes = Vec::with_capacity(items.len());
                        let run = move |core: &Core| {
                            run_own(core, place, &mut items, &mut outcomes, &f);
                            Ok((outcomes, items))
                        };
                        (place, numbers, send::start_at(per_core, place, run))
                    })
                    .collect();
                for (place, numbers, answer) in started {
                    let outcomes = match answer.and_then(Answer::wait) {
                        Ok((outcomes, _)) => outcomes,
                        Err(error) => of_all(place, error, numbers.len()),
                    };
                    put(numbers, outcomes);
                }
            }
        }
        let each = |result: Option<Outcome<R>>| result.expect("each has been put in its place");
        results.into_iter().map(|result| each(result).map_err(Error::from)).collect()
    }
}

/// Runs `f` on each of these, which are at the calling thread's own place, and leaves `items`
/// empty. The table is found once.
fn run_own<K: Kind, I, R>(
    core: &Core,
    place: Place,
    items: &mut Vec<(Id, I)>,
    outcomes: &mut Vec<Outcome<R>>,
    f: &impl Fn(&mut K, &mut K::Pool, I) -> R,
) {
    let mut rest = items.drain(..).peekable();
    while let Some((id, _)) = rest.peek() {
        let kind = id.kind();
        // Until one panics; those behind it run then.
        match catch_unwind(AssertUnwindSafe(|| core.each(kind, &mut rest, outcomes, f))) {
            Ok(Ok(())) => (),
            Ok(Err(error)) => {
                let left = rest.by_ref().count();
                outcomes.extend(of_all(place, *error, left));
            }
            Err(payload) => outcomes.push(Err(panicked(place, Panic::new(payload)).into())),
        }
    }
}

fn panicked(place: Place, panic: Panic) -> Error {
    Error::manager(place, crate::desk::Error::Panicked(panic))
}

/// Runs `f` on each of these by `with`, which finds a resource.
fn run_all<K: Kind, I, R>(
    place: Place,
    items: Vec<(Id, I)>,
    f: &impl Fn(&mut K, &mut K::Pool, I) -> R,
    with: impl Fn(Id, &mut dyn FnMut(&mut K, &mut K::Pool)) -> Outcome<()>,
) -> Vec<Outcome<R>> {
    let one = |(id, input): (Id, I)| {
        let (mut input, mut result) = (Some(input), None);
        let mut run = |resource: &mut K, pool: &mut K::Pool| {
            result = input.take().map(|input| f(resource, pool, input));
        };
        match catch_unwind(AssertUnwindSafe(|| with(id, &mut run))) {
            Ok(outcome) => outcome.map(|()| result.expect("it was found, and so `f` has run")),
            Err(payload) => Err(panicked(place, Panic::new(payload)).into()),
        }
    };
    items.into_iter().map(one).collect()
}

/// Why an owner has done nothing of what it was asked, for each of that.
fn of_all<R>(place: Place, error: Error, count: usize) -> Vec<Outcome<R>> {
    let all: Vec<Error> = (0..count).map_while(|_| again(place, &error)).collect();
    if all.len() == count {
        return all.into_iter().map(|error| Err(error.into())).collect();
    }
    let error = Arc::new(error);
    (0..count).map(|_| Err(Error::OfBatch(Arc::clone(&error)).into())).collect()
}

/// Copies an error, as far as callers tell it apart.
fn again(place: Place, error: &Error) -> Option<Error> {
    use crate::desk::Error::{Died, Full, Gone, TimedOut};
    let source = match error {
        Error::Manager { source, .. } => match source {
            Gone => Gone,
            Died => Died,
            Full => Full,
            TimedOut { begun } => TimedOut { begun: *begun },
            crate::desk::Error::Panicked(_) => return None,
        },
        Error::Nested { place, what } => return Some(Error::Nested { place: *place, what }),
        Error::NoPlace { place, places } => {
            return Some(Error::NoPlace { place: place.clone(), places: places.clone() });
        }
        _ => return None,
    };
    Some(Error::manager(place, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_all_is_each_one_s_own() {
        let texts = |error: Error| -> Vec<String> {
            let all: Vec<Outcome<()>> = of_all(Place(3), error, 3);
            all.into_iter().map(|one| one.unwrap_err().to_string()).collect()
        };
        let sys = || kumiki_sys::Error::Invalid("no way to wait".to_owned());
        for make in [
            || Error::manager(Place(3), crate::desk::Error::Gone),
            || Error::NoPlace { place: "core3".to_owned(), places: "core0".to_owned() },
            || Error::Nested { place: Place(1), what: "another place" },
        ] {
            assert_eq!(texts(make()), [make().to_string(), make().to_string(), make().to_string()]);
        }
        assert_eq!(texts(Error::Sys(sys())), ["no way to wait"; 3]);
        assert!(of_all::<()>(Place(3), Error::Sys(sys()), 0).is_empty());
    }
}
