//! Attempts: inline, by an engine, as futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;

use super::made::{Tried, try_call};
use super::refused::{DeviceGroup, REFUSED};
use super::way::CannotTry;
use crate::engine::Engine;
use crate::job::Job;
use crate::op::Operation;
use crate::pending::{Completed, Outcome, Pending};

/// Reason for which an [`attempt`] has made no call that counts.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotMade {
    /// The call would have slept, or has given a part only.
    #[error("the call would sleep: submit it, or make it where a thread may sleep")]
    WouldSleep,
    /// The call has no form that cannot sleep.
    #[error(transparent)]
    Cannot(#[from] CannotTry),
    /// Its form that cannot sleep was answered by an error which the plain call may not give: a
    /// file system, kernel or filter that knows no such form.
    #[error(
        "the form of the call that cannot sleep was answered by {0}, which may be no answer to \
         the plain call: make that, where a thread may sleep"
    )]
    NotHere(Errno),
}

kumiki_sys::debug_is_display!(NotMade);

/// Makes the operation's call if it need not sleep, on the calling thread.
///
/// ```
/// use kumiki_parasc::op::Pread;
/// use kumiki_parasc::tries::{NotMade, attempt};
///
/// let file = tempfile::tempfile()?;
/// std::os::unix::fs::FileExt::write_all_at(&file, b"cached", 0)?;
/// let mut read = Pread::new(&file, 0, [0; 6]);
/// match attempt(&mut read) {
///     Ok(count) => assert_eq!(count, Ok(6)),
///     Err(NotMade::WouldSleep | NotMade::NotHere(_)) => (), // to be submitted
///     Err(NotMade::Cannot(why)) => panic!("{why}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`NotMade`]: the operation is as it was, except that its buffer may have been written to.
#[inline]
pub fn attempt<O: Operation>(operation: &mut O) -> Result<O::Output, NotMade> {
    let request = operation.request();
    // SAFETY: the operation vouches for its call, and is borrowed for it.
    match unsafe { try_call(&request, None) } {
        // SAFETY: the result of its call, made just now.
        Tried::Made(ret_val) => Ok(unsafe { operation.complete(ret_val) }),
        Tried::WouldSleep => Err(NotMade::WouldSleep),
        Tried::Cannot(cannot) => Err(cannot.into()),
        Tried::NotHere(ret_val, _) => {
            Err(NotMade::NotHere(Errno::from_raw_os_error(-ret_val as i32)))
        }
    }
}

/// A call that was made at once or handed over: a [`Future`] of its end, or waited for by a
/// thread. Dropped, it is as a dropped [`Pending`].
#[must_use = "dropped, it takes the request back if nobody has begun it"]
pub struct Attempt<O: Job + Send + 'static> {
    stage: Stage<O>,
}

enum Stage<O: Job + Send + 'static> {
    Made(Completed<O>),
    /// Handed over, with the error that its form gave, and the place that may know no such form.
    HandedOver(Pending<O>, Option<(i64, DeviceGroup)>),
    Taken,
}

// The operation is moved when it is given away, and never pinned.
impl<O: Job + Send + 'static> Unpin for Attempt<O> {}

/// Trying first.
impl Engine {
    /// Makes the operation's call at once if it need not sleep, and else
    /// [submits](Self::submit) it to a thread that may sleep. See [`tries`](crate::tries) for
    /// which calls can be tried. No requester's lane is needed, and any thread may do so.
    ///
    /// ```
    /// use kumiki_parasc::op::Pread;
    /// use kumiki_parasc::{Config, Engine};
    ///
    /// let engine = Engine::new(&Config::default())?;
    /// let file = std::fs::File::open("/proc/self/stat")?;
    /// let attempt = engine.attempt(Pread::new(file, 0, vec![0; 64].into_boxed_slice()));
    /// // Here, or by another thread if the file system cannot say whether it would sleep.
    /// assert_eq!(attempt.wait()?.output, Ok(64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A job of several calls is gone through here as far as none sleeps, and handed over from
    /// there on.
    #[inline]
    pub fn attempt<O: Job + Send + 'static>(&self, operation: O) -> Attempt<O> {
        self.attempt_or(operation, |operation, doubt| self.hand_over(operation, doubt))
    }

    /// Attempts as [`attempt`](Self::attempt), and where the call would sleep it is submitted to
    /// the engine that `choose` gives for the operation: so that those of one disk, say, take the
    /// threads of no other.
    ///
    /// ```
    /// use kumiki_parasc::op::CWD;
    /// use kumiki_parasc::tries::OpenRead;
    /// use kumiki_parasc::{Config, Engine};
    ///
    /// let (engine, slow) = (Engine::new(&Config::default())?, Engine::new(&Config::default())?);
    /// let attempt = engine.attempt_by(OpenRead::new(CWD, c"/proc/self/stat"), |_| &slow);
    /// assert!(attempt.wait()?.output?.data.contains(&b'('));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn attempt_by<O, E>(&self, operation: O, choose: impl FnOnce(&O) -> E) -> Attempt<O>
    where
        O: Job + Send + 'static,
        E: std::ops::Deref<Target = Engine>,
    {
        self.attempt_or(operation, |operation, doubt| {
            let engine = choose(&operation);
            engine.hand_over(operation, doubt)
        })
    }

    #[inline]
    fn attempt_or<O: Job + Send + 'static>(
        &self,
        mut operation: O,
        hand_over: impl FnOnce(O, Option<(i64, DeviceGroup)>) -> Attempt<O>,
    ) -> Attempt<O> {
        let rules = &self.core.rules;
        let mut request = operation.request();
        if rules.check(&request).is_err() {
            return hand_over(operation, None);
        }
        loop {
            // SAFETY: the operation vouches for its calls, and stays where it is.
            let ret_val = match unsafe { try_call(&request, Some(rules)) } {
                Tried::Made(ret_val) => ret_val,
                Tried::WouldSleep | Tried::Cannot(_) => return hand_over(operation, None),
                Tried::NotHere(error, place) => {
                    return hand_over(operation, place.map(|place| (error, place)));
                }
            };
            // SAFETY: its call's result, and it has not moved.
            let denied = if unsafe { operation.goes_on(ret_val) } {
                request = operation.request();
                match rules.check(&request) {
                    Ok(()) => continue,
                    Err(denied) => Some(denied.ret_val()),
                }
            } else {
                None
            };
            // SAFETY: as above, and nothing is due, or what is due is answered by this.
            let output = unsafe { operation.complete(denied.unwrap_or(ret_val)) };
            return Attempt { stage: Stage::Made(Completed { output, operation }) };
        }
    }

    /// [`attempt`](Self::attempt)s each of them: those that would sleep are under way at the
    /// same time.
    pub fn attempt_all<O: Job + Send + 'static>(
        &self,
        operations: impl IntoIterator<Item = O>,
    ) -> Vec<Attempt<O>> {
        operations.into_iter().map(|operation| self.attempt(operation)).collect()
    }

    #[inline(never)]
    fn hand_over<O: Job + Send + 'static>(
        &self,
        operation: O,
        doubt: Option<(i64, DeviceGroup)>,
    ) -> Attempt<O> {
        Attempt { stage: Stage::HandedOver(Pending::submit(&self.core, operation, true), doubt) }
    }
}

impl<O: Job + Send + 'static> Attempt<O> {
    /// True if the call was made at once.
    #[inline]
    pub fn is_made(&self) -> bool {
        matches!(self.stage, Stage::Made(_))
    }

    /// Result of calls made at once.
    ///
    /// # Errors
    /// The request, if it was handed over.
    ///
    /// # Panics
    /// If its end has been given away already, by a poll.
    #[inline]
    pub fn made(self) -> Result<Completed<O>, Attempt<O>> {
        match self.stage {
            Stage::Made(completed) => Ok(completed),
            Stage::HandedOver(..) => Err(self),
            Stage::Taken => panic!("the end of an attempt is given away once"),
        }
    }

    /// Waits for the end, as [`Pending::wait`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn wait(self) -> Outcome<O> {
        match self.stage {
            Stage::Made(completed) => Ok(completed),
            Stage::HandedOver(pending, None) => pending.wait(),
            Stage::HandedOver(mut pending, Some(doubt)) => {
                pending.await_end();
                settle(&pending, doubt);
                pending.wait()
            }
            Stage::Taken => panic!("the end of an attempt is given away once"),
        }
    }
}

/// The rest of what can be done with an answer.
impl<O: Job + Send + 'static> Attempt<O> {
    /// True if nothing is left to wait for.
    pub fn is_done(&self) -> bool {
        match &self.stage {
            Stage::HandedOver(pending, _) => pending.is_done(),
            Stage::Made(_) | Stage::Taken => true,
        }
    }

    /// Waits for at most `timeout`, as [`Pending::wait_timeout`].
    ///
    /// # Errors
    /// This very attempt, if the time is over: the request goes on.
    ///
    /// # Panics
    /// As [`Pending::wait`].
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Outcome<O>, Self> {
        let is_late = match &mut self.stage {
            Stage::HandedOver(pending, _) => !pending.await_end_within(timeout),
            Stage::Made(_) | Stage::Taken => false,
        };
        if is_late { Err(self) } else { Ok(self.wait()) }
    }

    /// Takes the operation back, as [`Pending::cancel`].
    ///
    /// # Errors
    /// This very attempt: its call was made at once, or a thread has begun it.
    pub fn cancel(self) -> Result<O, Self> {
        match self.stage {
            Stage::HandedOver(pending, doubt) => pending
                .cancel()
                .map_err(|pending| Attempt { stage: Stage::HandedOver(pending, doubt) }),
            Stage::Made(_) | Stage::Taken => Err(self),
        }
    }
}

/// Notes a place that has refused what the plain call was then answered otherwise.
fn settle<O: Job + Send + 'static>(pending: &Pending<O>, (error, place): (i64, DeviceGroup)) {
    if pending.returned().is_some_and(|ret_val| ret_val != error) {
        REFUSED.note(place);
    }
}

impl<O: Job + Send + 'static> Future for Attempt<O> {
    type Output = Outcome<O>;

    /// # Panics
    /// If its end has been given away already.
    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<O>> {
        let this = self.get_mut();
        if let Stage::HandedOver(pending, doubt) = &mut this.stage {
            if let Some(doubt) = *doubt {
                if pending.is_done() {
                    settle(pending, doubt);
                }
            }
            return Pin::new(pending).poll(context);
        }
        match std::mem::replace(&mut this.stage, Stage::Taken) {
            Stage::Made(completed) => Poll::Ready(Ok(completed)),
            _ => panic!("the end of an attempt is given away once"),
        }
    }
}

impl<O: Job + Send + 'static> fmt::Debug for Attempt<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("made", &self.is_made()).finish_non_exhaustive()
    }
}
