//! Operations that travel together: one request for all that one owner has to do.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
struct Part<I> {
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
        let mut results: Vec<Option<Result<R>>> = Vec::new();
        let mut parts: Vec<Part<I>> = Vec::new();
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
                    None => parts.push(Part { place, numbers: vec![number], items: vec![item] }),
                }
            }
            results.push(refused.map(Err));
        }
        let mut put = |numbers: Vec<usize>, outcomes: Vec<Outcome<R>>| {
            for (number, outcome) in numbers.into_iter().zip(outcomes) {
                results[number] = Some(outcome.map_err(Error::from));
            }
        };
        match self.how() {
            How::Shared(core) => {
                for Part { place, numbers, items } in parts {
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
                    .map(|Part { place, numbers, items }| {
                        let f = f.clone();
                        let run = move |core: &Core| {
                            let with = |id, run: &mut dyn FnMut(&mut K, &mut K::Pool)| {
                                core.with::<K, _>(id, run)
                            };
                            Ok(run_all(place, items, &f, with))
                        };
                        (place, numbers, send::start_at(per_core, place, run))
                    })
                    .collect();
                for (place, numbers, answer) in started {
                    let outcomes = match answer.and_then(Answer::wait) {
                        Ok(outcomes) => outcomes,
                        Err(error) => of_all(place, error, numbers.len()),
                    };
                    put(numbers, outcomes);
                }
            }
        }
        results.into_iter().map(|result| result.expect("each has been put in its place")).collect()
    }
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
            Err(payload) => {
                let source = crate::desk::Error::Panicked(Panic::new(payload));
                Err(Error::manager(place, source).into())
            }
        }
    };
    items.into_iter().map(one).collect()
}

/// Why an owner has done nothing of what it was asked, for each of that.
fn of_all<R>(place: Place, error: Error, count: usize) -> Vec<Outcome<R>> {
    let again: fn() -> Option<crate::desk::Error> = match &error {
        Error::Manager { source: crate::desk::Error::Gone, .. } => {
            || Some(crate::desk::Error::Gone)
        }
        Error::Manager { source: crate::desk::Error::Died, .. } => {
            || Some(crate::desk::Error::Died)
        }
        Error::Manager { source: crate::desk::Error::Full, .. } => {
            || Some(crate::desk::Error::Full)
        }
        _ => || None,
    };
    let nested = || Error::Nested { place, what: "another place" };
    let more = (1..count).map(|_| again().map_or_else(nested, |why| Error::manager(place, why)));
    [error].into_iter().chain(more).map(|error| Err(error.into())).collect()
}
