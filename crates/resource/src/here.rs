//! What the calling thread is to an interface: the manager of a place, or a guest.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kumiki_slot::{Caller, Serving};
use kumiki_sys::pause::pause;
use kumiki_wait::{Policy, Waiter};

use crate::answer::Answer;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::guard::Owned;
use crate::id::Place;
use crate::interface::PerCore;

/// A manager's own things, in its thread.
pub(crate) struct Here {
    /// Of which interface.
    interface: u64,
    pub(crate) core: Core<Owned>,
    /// Of a thread that does something else beside; others are within their server's
    /// rounds whenever anything runs.
    pub(crate) server: RefCell<Option<Serving>>,
}

thread_local! {
    /// Of a [`Seated`]'s, or null. Without a destructor, so that reading it is a load.
    static HERE: Cell<*const Here> = const { Cell::new(ptr::null()) };
    /// This thread's callers: interface, place, caller. One that waits is borrowed: what a
    /// manager serves meanwhile may need another one.
    static CALLERS: RefCell<Vec<(u64, Place, Mine)>> = const { RefCell::new(Vec::new()) };
}

type Mine = Rc<RefCell<Caller>>;

/// What a manager's thread takes apart when it ends, and another one if it was killed.
#[derive(Default)]
pub(crate) struct Estate(Mutex<Option<Left>>);

struct Left(Rc<Here>);

// SAFETY: its manager's thread uses it, or, after that has died, one other.
unsafe impl Send for Left {}

impl Estate {
    fn take(&self) -> Option<Left> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Destroys the resources of a manager that was killed.
    ///
    /// # Safety
    /// The manager's thread has died.
    pub(crate) unsafe fn settle(&self) {
        let Some(Left(here)) = self.take() else { return };
        while Rc::strong_count(&here) > 1 {
            // SAFETY: a count of the thread's, which nobody will take down any more.
            unsafe { Rc::decrement_strong_count(Rc::as_ptr(&here)) };
        }
    }
}

/// As long as it lives, the calling thread is the manager of a place.
pub(crate) struct Seated {
    here: Rc<Here>,
    estate: Arc<Estate>,
}

impl Seated {
    pub(crate) fn new(
        interface: u64,
        core: Core<Owned>,
        server: Option<Serving>,
        estate: Arc<Estate>,
    ) -> Seated {
        let here = Rc::new(Here { interface, core, server: RefCell::new(server) });
        HERE.set(Rc::as_ptr(&here));
        let left = Left(Rc::clone(&here));
        *estate.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(left);
        Seated { here, estate }
    }

    /// What it has.
    pub(crate) fn here(&self) -> &Here {
        &self.here
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        CALLERS.with_borrow_mut(Vec::clear);
        HERE.set(ptr::null());
        drop(self.estate.take());
    }
}

/// Whether the calling thread manages a place of some interface.
pub(crate) fn is_manager() -> bool {
    !HERE.get().is_null()
}

/// Runs `f` with the core of the calling thread, a manager of `interface`.
pub(crate) fn own<R>(f: impl FnOnce(&Core<Owned>) -> R) -> R {
    f(&here().expect("a request is served by a manager").core)
}

/// A result that travels in the line: an error would be too large for it, and make every
/// result travel in a box.
pub(crate) type Sent<R> = Result<R, Box<Error>>;

/// Runs a request.
#[inline(always)]
fn sent<R>(f: impl FnOnce(&Core<Owned>) -> Result<R>) -> Sent<R> {
    own(f).map_err(Box::new)
}

/// What has come of it.
#[inline(always)]
pub(crate) fn arrived<R>(outcome: Result<Sent<R>, kumiki_slot::Error>, place: Place) -> Result<R> {
    match outcome {
        Ok(sent) => sent.map_err(|error| *error),
        Err(source) => Err(Error::manager(place, source)),
    }
}

/// What the calling thread manages. It stays as long as the value: what runs meanwhile may
/// drop the [`Seated`].
#[inline(always)]
fn here() -> Option<Rc<Here>> {
    let here = HERE.get();
    if here.is_null() {
        return None;
    }
    // SAFETY: from the `Rc` of a `Seated` of this thread, which resets it when it goes.
    unsafe { Rc::increment_strong_count(here) };
    // SAFETY: as above, counted just now.
    Some(unsafe { Rc::from_raw(here) })
}

/// Runs `f` at `place`: at once if that is the calling thread's, else there, by its
/// manager.
#[inline]
pub(crate) fn run_at<R: Send>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send,
) -> Result<R> {
    match here() {
        Some(here) if here.interface == interface.number => {
            if here.core.place == place {
                return f(&here.core);
            }
            let mut server = here.server.try_borrow_mut();
            match server.as_deref_mut() {
                Ok(Some(server)) => call(interface, place, Some(server), f),
                _ => Err(Error::Nested { place: here.core.place, what: "another place" }),
            }
        }
        _ => call(interface, place, None, f),
    }
}

fn call<R: Send>(
    interface: &PerCore,
    place: Place,
    server: Option<&mut Serving>,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send,
) -> Result<R> {
    let caller = caller(interface, place, server.as_deref())?;
    let mut caller = caller.borrow_mut();
    let outcome = match server {
        Some(server) => caller.call_serving(|| sent(f), server),
        None => caller.call(|| sent(f)),
    };
    arrived(outcome, place)
}

/// As [`run_at`], until `deadline`.
pub(crate) fn run_at_until<R: Send + 'static>(
    interface: &PerCore,
    place: Place,
    deadline: Instant,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send + 'static,
) -> Result<R> {
    let here = here().filter(|here| here.interface == interface.number);
    let Some(here) = here else {
        let caller = caller(interface, place, None)?;
        let outcome = caller.borrow_mut().call_until(deadline, || sent(f));
        return arrived(outcome, place);
    };
    if here.core.place == place {
        return f(&here.core);
    }
    let mut server = here.server.try_borrow_mut();
    let Ok(Some(server)) = server.as_deref_mut() else {
        return Err(Error::Nested { place: here.core.place, what: "another place" });
    };
    let caller = caller(interface, place, Some(server))?;
    let outcome = caller.borrow_mut().call_until_serving(deadline, || sent(f), server);
    arrived(outcome, place)
}

/// Has `f` run at `place` and does not wait: at once if that is the calling thread's.
#[inline]
pub(crate) fn start_at<R: Send + 'static>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send + 'static,
) -> Result<Answer<R>> {
    let here = here().filter(|here| here.interface == interface.number);
    if let Some(here) = &here
        && here.core.place == place
    {
        return Ok(Answer::here(f(&here.core)));
    }
    // In use within a request: what is started there others wait for.
    let server = here.as_ref().and_then(|here| here.server.try_borrow().ok());
    let server = server.as_deref().and_then(Option::as_ref);
    let answer = caller(interface, place, server)?.borrow_mut().submit(move || sent(f));
    let answer = answer.map_err(|source| Error::manager(place, source))?;
    Ok(Answer::there(answer, interface.number, place))
}

/// Between two looks of a manager that waits for an answer which another thread has asked
/// for: neither is its bell rung for that, nor is it woken for its own callers.
const PAUSE: Duration = Duration::from_micros(50);

/// Waits for what the calling thread, or another one, has started.
#[inline]
pub(crate) fn join<R: Send>(
    answer: kumiki_slot::Answer<Sent<R>>,
    interface: u64,
    place: Place,
) -> Result<R> {
    let its = CALLERS.with_borrow(|callers| {
        let asked = |(of, at, caller): &&(u64, Place, Mine)| {
            (*of, *at) == (interface, place)
                && caller.try_borrow().is_ok_and(|caller| caller.has_submitted(&answer))
        };
        callers.iter().find(asked).map(|(_, _, caller)| Rc::clone(caller))
    });
    let here = here();
    let mut server = here.as_ref().and_then(|here| here.server.try_borrow_mut().ok());
    let outcome = match (its, server.as_deref_mut()) {
        (Some(its), Some(Some(server))) => its.borrow_mut().join_serving(answer, server),
        (Some(its), _) => its.borrow_mut().join(answer),
        (None, Some(Some(server))) => {
            while !answer.is_settled() {
                if !server.round() {
                    pause(PAUSE);
                }
            }
            answer.wait()
        }
        (None, _) => answer.wait(),
    };
    arrived(outcome, place)
}

/// A caller of a place that this thread has and that is not waiting, or a new one.
#[inline]
fn caller(interface: &PerCore, place: Place, server: Option<&Serving>) -> Result<Mine> {
    let number = interface.number;
    CALLERS.with_borrow_mut(|callers| {
        let rests = |(of, at, caller): &&(u64, Place, Mine)| {
            (*of, *at) == (number, place) && caller.try_borrow_mut().is_ok()
        };
        if let Some((_, _, caller)) = callers.iter().find(rests) {
            return Ok(Rc::clone(caller));
        }
        let door = interface.door(place)?;
        let waiter = Waiter::new(&interface.policy).or(Waiter::new(&Policy::default()))?;
        let caller = Rc::new(RefCell::new(match server {
            Some(server) => door.caller_of(server, waiter),
            None => door.caller(waiter),
        }));
        // Of interfaces that have ended.
        callers.retain(|(_, _, caller)| caller.try_borrow().map_or(true, |c| !c.is_gone()));
        callers.push((number, place, Rc::clone(&caller)));
        Ok(caller)
    })
}
