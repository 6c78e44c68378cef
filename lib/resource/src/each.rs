//! Operations that travel together: one request for all that one owner has to do.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::desk::Panic;

use crate::answer::Answer;
use crate::core::Core;
use crate::error::{Error, Outcome, Result};
use crate::handle::Handle;
use crate::here::here;
use crate::id::Place;
use crate::interface::Interface;
use crate::item::Item;
use crate::kind::Kind;
use crate::rights::Rights;
use crate::send;

/// One owner's part of a batch.
struct Part<I, R> {
    place: Place,
    count: usize,
    items: Vec<Item<I, R>>,
    answer: Option<Result<PartAnswer<I, R>>>,
}

/// The answer to a part: its items come back.
type PartAnswer<I, R> = Answer<Vec<Item<I, R>>>;

/// Part that each operation of a batch belongs to, by number; nothing while all belong to the first
/// one.
struct Order(Vec<u32>);

/// Operations that room is made for at once: an iterator's word for more is not taken.
const MOST_AT_ONCE: usize = 4096;

/// Number of an operation that belongs to no part: its handle was refused.
const REFUSED: u32 = u32::MAX;

impl Order {
    fn push(&mut self, before: usize, part: u32) {
        if self.0.is_empty() && part != 0 {
            self.0.resize(before, 0);
        }
        if !self.0.is_empty() || part != 0 {
            self.0.push(part);
        }
    }
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
    /// may have run, all or some. Within a program part all have [`Error::Nested`], and what is
    /// other owners' may have run.
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
        let all = all.into_iter();
        let expected = all.size_hint().0.min(MOST_AT_ONCE);
        let mut parts: Vec<Part<I, R>> = Vec::new();
        let (mut order, mut refused, mut last) = (Order(Vec::new()), Vec::new(), 0);
        for (number, (handle, input)) in all.enumerate() {
            if let Err(error) = handle.require(self.number(), Rights::USE) {
                refused.push(error);
                order.push(number, REFUSED);
                continue;
            }
            let id = handle.id();
            let place = id.place();
            // Mostly it is the owner of the one before.
            if parts.get(last).is_none_or(|part| part.place != place) {
                last = parts.iter().position(|part| part.place == place).unwrap_or(parts.len());
            }
            if last == parts.len() {
                let items = Vec::with_capacity(if last == 0 { expected } else { 0 });
                parts.push(Part { place, count: 0, items, answer: None });
            }
            parts[last].items.push(Item::Asked(id, input));
            order.push(number, last as u32);
        }
        // The others first: they work while this thread does.
        let own = here().map(|here| here.core.place);
        for of_own in [false, true] {
            for part in parts.iter_mut().filter(|p| (Some(p.place) == own) == of_own) {
                let f = f.clone();
                part.count = part.items.len();
                // Memory of this thread's, which comes back to it: what one thread
                // allocates and another frees costs both of them.
                let mut items = std::mem::take(&mut part.items);
                let run = move |core: &Core| {
                    run_own(core, &mut items, &f);
                    Ok(items)
                };
                part.answer = Some(send::start_at(self.per_core(), part.place, run));
            }
        }
        for Part { place, count, items, answer } in &mut parts {
            let answer = answer.take().expect("each part was started");
            *items = answer.and_then(Answer::wait).unwrap_or_else(|error| {
                of_all(*place, error, *count).into_iter().map(Item::Given).collect()
            });
        }
        let mut parts = parts.into_iter().map(|part| part.items.into_iter().map(Item::result));
        if order.0.is_empty() {
            return parts.next().map_or_else(Vec::new, Iterator::collect);
        }
        let (mut parts, mut refused): (Vec<_>, _) = (parts.collect(), refused.into_iter());
        let one = |part: u32| match part {
            REFUSED => Err(refused.next().expect("one error a refusal")),
            part => parts[part as usize].next().expect("one result an operation"),
        };
        order.0.into_iter().map(one).collect()
    }
}

/// Runs `f` on each of these, which are at the calling thread's own place. The table is found once.
fn run_own<K: Kind, I, R>(
    core: &Core,
    items: &mut [Item<I, R>],
    f: &impl Fn(&mut K, &mut K::Pool, I) -> R,
) {
    let mut next = 0;
    while let Some(Item::Asked(id, _)) = items.get(next) {
        let kind = id.kind();
        // Until one panics; those behind it run then.
        match catch_unwind(AssertUnwindSafe(|| core.each(kind, items, &mut next, f))) {
            Ok(Ok(())) => (),
            Ok(Err(error)) => {
                let left = &mut items[next..];
                let errors = of_all(core.place, *error, left.len());
                left.iter_mut().zip(errors).for_each(|(item, error)| *item = Item::Given(error));
            }
            Err(payload) => items[next - 1] = Item::Given(panicked(core.place, payload)),
        }
    }
}

fn panicked<R>(place: Place, payload: Box<dyn Any + Send>) -> Outcome<R> {
    let panic = crate::desk::Error::Panicked(Panic::new(payload));
    Err(Error::manager(place, panic).into())
}

/// Outcomes for an owner that has done nothing: the reason, once for each operation.
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
