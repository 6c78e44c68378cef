//! The answer of an operation that the caller does not wait for at once.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use kumiki_wait::Deadline;

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

    /// Takes the operation back, if nobody has begun it: then it has not run and never
    /// will.
    ///
    /// # Errors
    /// This very answer: the operation runs or has run.
    pub fn cancel(self) -> std::result::Result<(), Self> {
        match self.0 {
            AnswerState::Here(_) => Err(self),
            AnswerState::There { answer, interface, place } => {
                answer.cancel().map_err(|answer| Answer::there(answer, interface, place))
            }
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
            AnswerState::There { answer, interface, place } => {
                let joined = join(answer, interface, place, None);
                Ok(joined.unwrap_or_else(|_| unreachable!("no deadline was given"))?)
            }
        }
    }

    /// Waits as [`wait`](Self::wait), for `timeout` at most.
    ///
    /// # Errors
    /// The answer itself, if it has not come by then: the operation goes on.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(self, timeout: Duration) -> std::result::Result<Result<R>, Self> {
        match self.0 {
            AnswerState::Here(result) => Ok(result.expect(ONCE).map_err(Into::into)),
            AnswerState::There { answer, interface, place } => {
                match join(answer, interface, place, Deadline::after(timeout).at()) {
                    Ok(outcome) => Ok(outcome.map_err(Into::into)),
                    Err(answer) => Err(Answer::there(answer, interface, place)),
                }
            }
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

/// An answer that has not come.
type Late<R> = crate::desk::Answer<Outcome<R>>;

/// Waits for what the calling thread, or another one, has started, until the deadline if there is
/// one.
#[inline]
fn join<R: Send>(
    answer: Late<R>,
    interface: u64,
    place: Place,
    deadline: Option<Instant>,
) -> std::result::Result<Outcome<R>, Late<R>> {
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
        Err(nested) => return Ok(Err(nested)),
    };
    let outcome = match (its, server.as_deref_mut()) {
        (Some(its), server) if server.as_ref().is_none_or(|server| its.borrow().rings(server)) => {
            its.borrow_mut().join_until_serving(answer, deadline, server)?
        }
        (_, Some(server)) => {
            let is_late = || deadline.is_some_and(|at| at <= Instant::now());
            serve_until(server, || answer.is_settled() || is_late());
            match answer.is_settled() {
                true => answer.wait(),
                false => return Err(answer),
            }
        }
        _ => answer.wait_until(deadline)?,
    };
    Ok(arrived(outcome, place))
}
