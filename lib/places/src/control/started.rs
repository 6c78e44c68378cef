//! Calls that are started: their caller goes on, and waits for them later, by a thread or in a task.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::control::Control;
use crate::control::net::{Engine, Net};
use crate::control::road::Road;
use crate::control::transport::{Limit, Ongoing, Transport};
use crate::error::{Error, Result};
use crate::part::Part;
use crate::reference::Reference;

/// A call that was started ([`Control::start`]): a thread [waits](StartedCall::wait) for it, or a task awaits it. If this
/// is dropped the call goes on, and nobody hears what it gives.
#[must_use = "what it gives is to be waited for"]
pub struct StartedCall<T> {
    engine: Arc<Engine>,
    place: Arc<str>,
    told: Receiver<Result<T>>,
}

impl<T: Send> StartedCall<T> {
    /// Waits for what the part gives.
    ///
    /// # Errors
    /// As [`Control::call`]; [`Error::Value`] if it was given before.
    pub fn wait(self) -> Result<T> {
        let engine = Arc::clone(&self.engine);
        engine.wait(self)
    }

    /// Waits for so long at most for what the part gives; none if it is under way then. It is given once: whoever asks
    /// again gets [`Error::Value`].
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<T>> {
        let engine = Arc::clone(&self.engine);
        engine.wait(async { timeout(limit, self).await }).ok()
    }
}

/// Gives what the part gives, in a task of whichever runtime, once; [`Error::Value`] from then on.
impl<T> Future for StartedCall<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if self.told.is_terminated() {
            return Poll::Ready(Err(given_before(&self.place)));
        }
        let told = Pin::new(&mut self.told).poll(context);
        told.map(|told| told.unwrap_or_else(|_| Err(lost(&self.place))))
    }
}

/// Its caller asks once more.
#[cold]
fn given_before(place: &str) -> Error {
    let what = format!("a call that was started at place {place}");
    let why = "what it gave was taken before, and is given once: keep it".to_owned();
    Error::Value { what, why }
}

/// Its task has ended without a word.
#[cold]
fn lost(place: &str) -> Error {
    let why = "the control's task for it has ended".to_owned();
    Error::Unknown { place: place.to_owned(), why }
}

impl<T> fmt::Debug for StartedCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedCall").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Control {
    /// Starts a [call](Self::call) and does not wait for it: many may be under way, and come to an end in any order.
    ///
    /// Elsewhere it goes by messages, also where a line would be faster, as a line holds up its thread. In this process
    /// a part that does not block has run when this comes back, which is shorter than to have another thread do it; of
    /// one that blocks the rest goes on. Who is to have requests under way at cores of this process has
    /// [`Interface::start`](kumiki_resource::Interface::start).
    pub fn start<P: Part>(&self, on: &Reference<P::Kind>, input: P::In) -> StartedCall<P::Out> {
        let (tell, told) = channel();
        let (engine, place) = (Arc::clone(&self.inner.engine), Arc::clone(on.shared_place()));
        match self.road(&place) {
            Err(error) => _ = tell.send(Err(error)),
            Ok(road) => match &*road {
                Road::Home(home) => {
                    let begun = Instant::now();
                    match home.start::<P>(on, input, self.limit) {
                        Err(error) => _ = tell.send(Err(error)),
                        Ok(Ongoing::Gave(output)) => _ = tell.send(Ok(output)),
                        Ok(Ongoing::Rest(rest)) => {
                            let left =
                                self.limit.map(|limit| limit.saturating_sub(begun.elapsed()));
                            engine.runtime().spawn(by_thread(rest, Arc::clone(&place), left, tell));
                        }
                    }
                }
                Road::Net(net) => self.start_by::<P>(net, on, input, tell),
                Road::Lines(lines) => match &lines.beside {
                    Some(net) => self.start_by::<P>(net, on, input, tell),
                    // There is a line and nothing else: a thread of the control's waits at it.
                    None => {
                        let (road, on, limit) = (Arc::clone(&road), on.clone(), self.limit);
                        let call = move || _ = tell.send(road.call::<P>(&on, &input, limit));
                        engine.runtime().spawn_blocking(call);
                    }
                },
            },
        }
        StartedCall { engine, place, told }
    }

    /// Starts it by messages.
    fn start_by<P: Part>(
        &self,
        net: &Net,
        on: &Reference<P::Kind>,
        input: P::In,
        tell: Sender<Result<P::Out>>,
    ) {
        let (client, on) = (net.within(self.limit), on.clone());
        // It is to go when nobody has it any more, also while calls are under way.
        let control = Arc::downgrade(&self.inner);
        self.inner.engine.runtime().spawn(async move {
            let outcome = client.call::<P>(&on, input).await;
            if let (Err(Error::Gone { place }), Some(control)) = (&outcome, control.upgrade()) {
                control.forget(place);
            }
            // Whoever waits may have gone.
            let _ = tell.send(outcome);
        });
    }
}

/// Has a thread do what may block, for what is left of the limit.
async fn by_thread<T: Send + 'static>(
    rest: Box<dyn FnOnce() -> Result<T> + Send>,
    place: Arc<str>,
    left: Limit,
    tell: Sender<Result<T>>,
) {
    let done = spawn_blocking(rest);
    let outcome = match left {
        None => done.await,
        Some(left) => match timeout(left, done).await {
            Ok(done) => done,
            Err(_) => {
                let why = "no answer within its time; it goes on".to_owned();
                Ok(Err(Error::Unknown { place: place.to_string(), why }))
            }
        },
    };
    let _ = tell.send(outcome.unwrap_or_else(|_| Err(lost(&place))));
}
