//! The answer of an operation that the caller does not wait for at once.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::error::{Error, Outcome, Result};
use crate::here::{CALLERS, CallerRef, here, serve_until, serving};
use crate::id::Place;

/// The answer of an operation that may still be under way: waited for by
/// [`wait`](Self::wait), or a future for any executor.
pub struct Answer<R>(AnswerState<R>);

enum AnswerState<R> {
    /// The operation ran at once: the place is the calling thread's own, or shared by all.
    Here(Option<Outcome<R>>),
    There {
        answer: crate::desk::Answer<Outcome<R>>,
        interface: u64,
        place: Place,
    },
}

impl<R> fmt::Debug for Answer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("is_done", &self.is_done()).finish()
    }
}

impl<R> Answer<R> {
    pub(crate) fn here(result: Outcome<R>) -> Self {
        Answer(AnswerState::Here(Some(result)))
    }

    pub(crate) fn there(
        answer: crate::desk::Answer<Outcome<R>>,
        interface: u64,
        place: Place,
    ) -> Self {
        Answer(AnswerState::There { answer, interface, place })
    }

    /// True if it is there.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            AnswerState::Here(_) => true,
            AnswerState::There { answer, .. } => answer.is_done(),
        }
    }
}

impl<R: Send> Answer<R> {
    /// Leaves the operation to run. Dropped instead, an answer cancels one that has not
    /// begun.
    pub fn detach(self) {
        if let AnswerState::There { answer, .. } = self.0 {
            answer.detach();
        }
    }

    /// Takes the operation back; whether that was in time: then it has not run and never
    /// will.
    pub fn cancel(self) -> bool {
        match self.0 {
            AnswerState::Here(_) => false,
            AnswerState::There { answer, .. } => answer.cancel(),
        }
    }

    /// Waits for it. A manager's thread serves meanwhile; within an operation on its own
    /// place it cannot, so that there an answer that has not come is not waited for.
    ///
    /// # Errors
    /// The operation's; [`Error::Nested`](crate::Error::Nested) within another operation: it
    /// is cancelled then; [`Error::Manager`](crate::Error::Manager) if the owner does not answer, or if the
    /// operation panicked there.
    ///
    /// # Panics
    /// If it was awaited to its end before.
    #[inline]
    pub fn wait(self) -> Result<R> {
        match self.0 {
            AnswerState::Here(result) => Ok(result.expect(ONCE)?),
            AnswerState::There { answer, interface, place } => Ok(join(answer, interface, place)?),
        }
    }
}

/// The panic's text for an answer taken twice.
const ONCE: &str = "an answer is taken once";

// It is moved out of, never pinned into.
impl<R> Unpin for Answer<R> {}

impl<R> Future for Answer<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        match &mut self.0 {
            AnswerState::Here(result) => Poll::Ready(Ok(result.take().expect(ONCE)?)),
            AnswerState::There { answer, place, .. } => {
                let (answer, place) = (Pin::new(answer), *place);
                answer.poll(cx).map(|outcome| Ok(arrived(outcome, place)?))
            }
        }
    }
}

/// Turns the line's outcome, at `place`, into the operation's.
#[inline(always)]
pub(crate) fn arrived<R>(
    outcome: Result<Outcome<R>, crate::desk::Error>,
    place: Place,
) -> Outcome<R> {
    outcome.unwrap_or_else(|source| Err(Error::manager(place, source).into()))
}

/// Waits for what the calling thread, or another one, has started.
#[inline]
fn join<R: Send>(
    answer: crate::desk::Answer<Outcome<R>>,
    interface: u64,
    place: Place,
) -> Outcome<R> {
    let its = CALLERS.with_borrow(|callers| {
        let asked = |(of, at, caller): &&(u64, Place, CallerRef)| {
            (*of, *at) == (interface, place)
                && caller.try_borrow().is_ok_and(|caller| caller.has_submitted(&answer))
        };
        callers.iter().find(asked).map(|(_, _, caller)| Rc::clone(caller))
    });
    let here = here();
    let mut server = match serving(here.as_deref()) {
        Ok(server) => server,
        // To take it takes no time.
        Err(_) if answer.is_done() => None,
        // Dropped, the answer cancels what has not begun.
        Err(nested) => return Err(nested),
    };
    let outcome = match (its, server.as_deref_mut()) {
        (Some(its), server) if server.as_ref().is_none_or(|server| its.borrow().rings(server)) => {
            its.borrow_mut().join_serving(answer, server)
        }
        (_, Some(server)) => {
            serve_until(server, || answer.is_settled());
            answer.wait()
        }
        _ => answer.wait(),
    };
    arrived(outcome, place)
}
