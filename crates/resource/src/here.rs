//! What the calling thread is to an interface: the manager of a place, or a guest.

use std::cell::{Cell, RefCell, RefMut};
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kumiki_slot::{Caller, LINES, Serving};
use kumiki_sys::pause::pause;
use kumiki_wait::{Policy, Waiter};

use crate::answer::Answer;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::guard::{self, Owned};
use crate::id::Place;
use crate::interface::{PerCore, SHARED};

/// A manager's own things, in its thread.
pub(crate) struct Here {
    /// Of which interface.
    interface: u64,
    pub(crate) core: Core<Owned>,
    /// Of a thread that does something else beside; others are within their server's
    /// rounds whenever anything runs.
    server: RefCell<Option<Serving>>,
}

impl Here {
    #[inline(always)]
    fn is(&self, interface: &PerCore, place: Place) -> bool {
        self.interface == interface.number && self.core.place == place
    }

    /// The server with which it serves while it waits, unless it is within an operation:
    /// that has its tables, which others' requests need.
    pub(crate) fn idle(&self) -> Option<RefMut<'_, Serving>> {
        if self.core.is_in_use() {
            return None;
        }
        RefMut::filter_map(self.server.try_borrow_mut().ok()?, Option::as_mut).ok()
    }
}

thread_local! {
    /// Of a [`Seated`]'s, or null. Without a destructor, so that reading it is a load.
    static HERE: Cell<*const Here> = const { Cell::new(ptr::null()) };
    /// Whether this thread is within an operation on what it manages.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
    /// What went within an operation: it stays until the outermost has ended.
    static GONE: RefCell<Vec<Rc<Here>>> = const { RefCell::new(Vec::new()) };
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
        // Made by a guest, they sleep at bells of their own.
        drop(CALLERS.take());
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

    /// Serves for the last time.
    pub(crate) fn end(&self) {
        let server = self.here.server.try_borrow_mut().ok().and_then(|mut server| server.take());
        server.into_iter().for_each(Serving::end);
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        drop(CALLERS.take());
        HERE.set(ptr::null());
        if IS_WITHIN.get() {
            GONE.with_borrow_mut(|gone| gone.push(Rc::clone(&self.here)));
        }
        drop(self.estate.take());
    }
}

/// Whether the calling thread manages a place of some interface.
pub(crate) fn is_manager() -> bool {
    !HERE.get().is_null()
}

/// An operation of the calling thread on what it manages.
struct Within {
    here: *const Here,
    /// Within another one.
    nested: bool,
}

impl Within {
    /// Without a count of who holds it, as [`here`] has: changing that twice takes as long
    /// as the rest of an operation.
    #[inline(always)]
    fn new() -> Option<Within> {
        let here = HERE.get();
        (!here.is_null()).then(|| Within { here, nested: IS_WITHIN.replace(true) })
    }

    #[inline(always)]
    fn here(&self) -> &Here {
        // SAFETY: of a `Seated` of this thread, which, if it went since `new`, has left it
        // in `GONE` until `drop`.
        unsafe { &*self.here }
    }
}

impl Drop for Within {
    #[inline(always)]
    fn drop(&mut self) {
        IS_WITHIN.set(self.nested);
        if HERE.get() != self.here && !self.nested {
            has_gone();
        }
    }
}

#[cold]
fn has_gone() {
    drop(GONE.take());
}

/// Runs `f` with the core of the calling thread, a manager of `interface`.
#[inline(always)]
pub(crate) fn own<R>(f: impl FnOnce(&Core<Owned>) -> R) -> R {
    f(&Within::new().expect("a request is served by a manager").here().core)
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

/// The server with which a manager serves while it waits for another place; none of a
/// guest. Within an operation neither waits: somebody may be waiting for what it holds.
fn serving(here: Option<&Here>) -> Result<Option<RefMut<'_, Serving>>> {
    let what = "another place";
    if guard::is_inside() {
        return Err(Error::Nested { place: SHARED, what });
    }
    let Some(here) = here else { return Ok(None) };
    here.idle().map(Some).ok_or_else(|| Error::Nested { place: here.core.place, what })
}

/// Runs `f` at `place`: at once if that is the calling thread's, else there, by its
/// manager.
#[inline]
pub(crate) fn run_at<R: Send>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send,
) -> Result<R> {
    if let Some(within) = Within::new()
        && within.here().is(interface, place)
    {
        return f(&within.here().core);
    }
    run_there(interface, place, f)
}

/// Apart, so that what runs at once has none of it in its way.
#[inline(never)]
fn run_there<R: Send>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send,
) -> Result<R> {
    let here = here();
    let mut server = serving(here.as_deref())?;
    call(interface, place, server.as_deref_mut(), f)
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
    let here = here();
    if let Some(here) = &here
        && here.is(interface, place)
    {
        return f(&here.core);
    }
    let mut server = serving(here.as_deref())?;
    let caller = caller(interface, place, server.as_deref())?;
    let mut caller = caller.borrow_mut();
    let outcome = match server.as_deref_mut() {
        Some(server) => caller.call_until_serving(deadline, || sent(f), server),
        None => caller.call_until(deadline, || sent(f)),
    };
    arrived(outcome, place)
}

/// Has `f` run at `place` and does not wait: at once if that is the calling thread's.
#[inline]
pub(crate) fn start_at<R: Send + 'static>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send + 'static,
) -> Result<Answer<R>> {
    let here = here();
    if let Some(here) = &here
        && here.is(interface, place)
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
    let mut server = match serving(here.as_deref()) {
        Ok(server) => server,
        // To take it takes no time.
        Err(_) if answer.is_done() => None,
        // Dropped, the answer cancels what has not begun.
        Err(nested) => return Err(nested),
    };
    let outcome = match (its, server.as_deref_mut()) {
        (Some(its), None) => its.borrow_mut().join(answer),
        (Some(its), Some(server)) if its.borrow().rings(server) => {
            its.borrow_mut().join_serving(answer, server)
        }
        (_, Some(server)) => {
            serve_until(server, || answer.is_settled());
            answer.wait()
        }
        (None, None) => answer.wait(),
    };
    arrived(outcome, place)
}

fn serve_until(server: &mut Serving, is_over: impl Fn() -> bool) {
    while !is_over() {
        if !server.round() {
            pause(PAUSE);
        }
    }
}

/// Waits until `is_over`, of which nobody tells; a manager serves meanwhile.
pub(crate) fn wait_until(is_over: impl Fn() -> bool) {
    let here = here();
    if let Some(mut server) = here.as_ref().and_then(|here| here.idle()) {
        return serve_until(&mut server, is_over);
    }
    while !is_over() {
        pause(PAUSE);
    }
}

/// A caller of a place that this thread has, that is not waiting and has room; or a
/// further one, while fewer than [`LINES`] requests are under way: one answer that is not
/// taken is to hold up no others.
#[inline]
fn caller(interface: &PerCore, place: Place, server: Option<&Serving>) -> Result<Mine> {
    let quick = CALLERS.with_borrow(|callers| {
        let free = |one: &&(u64, Place, Mine)| {
            rests(one, interface, place, server) && one.2.borrow().has_free_line()
        };
        callers.iter().find(free).map(|one| Rc::clone(&one.2))
    });
    match quick {
        Some(quick) => Ok(quick),
        None => with_room(interface, place, server),
    }
}

/// Whether this is a caller of a place and is not waiting.
#[inline(always)]
fn rests(
    (of, at, caller): &(u64, Place, Mine),
    interface: &PerCore,
    place: Place,
    server: Option<&Serving>,
) -> bool {
    (*of, *at) == (interface.number, place)
        && caller.try_borrow_mut().is_ok_and(|c| server.is_none_or(|server| c.rings(server)))
}

#[cold]
fn with_room(interface: &PerCore, place: Place, server: Option<&Serving>) -> Result<Mine> {
    let rests = |one: &_| rests(one, interface, place, server);
    let (mut from, mut under_way, mut full) = (0, 0, None);
    loop {
        let next = CALLERS.with_borrow(|callers| {
            let at = from + callers.get(from..)?.iter().position(rests)?;
            Some((at, Rc::clone(&callers[at].2)))
        });
        let Some((at, next)) = next else { break };
        // Asked with the list free: to find room drops answers that nobody wants, which
        // may use it.
        if next.borrow().has_room() {
            return Ok(next);
        }
        (from, under_way) = (at + 1, under_way + next.borrow().under_way());
        full.get_or_insert(next);
    }
    match full {
        Some(full) if under_way >= LINES => Ok(full),
        _ => further(interface, place, server),
    }
}

#[cold]
fn further(interface: &PerCore, place: Place, server: Option<&Serving>) -> Result<Mine> {
    let door = interface.door(place)?;
    let waiter = Waiter::new(&interface.policy).or(Waiter::new(&Policy::default()))?;
    let caller = Rc::new(RefCell::new(match server {
        Some(server) => door.caller_of(server, waiter),
        None => door.caller(waiter),
    }));
    let mine = (interface.number, place, Rc::clone(&caller));
    // Of interfaces that have ended; dropped when the list is free, as above.
    let gone: Vec<_> = CALLERS.with_borrow_mut(|callers| {
        let gone = |one: &mut (u64, Place, Mine)| one.2.try_borrow().is_ok_and(|c| c.is_gone());
        let all = callers.extract_if(.., gone).collect();
        callers.push(mine);
        all
    });
    drop(gone);
    Ok(caller)
}

#[cfg(test)]
mod tests {
    use kumiki_sys::affinity;

    use super::*;
    use crate::{Interface, Memory};

    fn mine() -> Vec<Mine> {
        CALLERS.with_borrow(|callers| callers.iter().map(|one| Rc::clone(&one.2)).collect())
    }

    #[test]
    fn a_manager_s_callers_sleep_at_its_own_bell() {
        let allowed = affinity::current().unwrap();
        let mut cpus = allowed.iter();
        let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else {
            return eprintln!("skipped: two cpus are needed");
        };
        let builder = Interface::builder().kind::<Memory>();
        let interface = builder.cores([second]).adopted([first]).per_core().unwrap();
        let [own, other] = interface.places()[..] else { unreachable!() };
        let there = interface.create::<Memory>(other, None, 1).unwrap();
        let early = interface.start(&there, |memory, _| memory.len()).unwrap();
        assert_eq!(mine().len(), 1);
        let _manager = interface.manage(own).unwrap();
        assert!(mine().is_empty(), "a guest's has another bell");
        // Within an operation the server is not to be had for that.
        let own = interface.create::<Memory>(own, None, 1).unwrap();
        let within = interface.with(&own, |_, _| interface.start(&there, |_, _| ()).unwrap());
        interface.with(&there, |_, _| ()).unwrap();
        let here = here().unwrap();
        let server = here.idle().unwrap();
        assert!(mine().iter().any(|caller| caller.borrow().rings(&server)));
        drop(server);
        // Whoever rings, they come.
        assert_eq!(early.join().unwrap(), 1);
        within.unwrap().join().unwrap();
    }

    #[test]
    fn one_that_goes_within_an_operation_stays_until_that_ends() {
        let cpu = affinity::current().unwrap().first().unwrap();
        let builder = || Interface::builder().kind::<Memory>().cores([]).adopted([cpu]);
        let interface = builder().per_core().unwrap();
        let place = interface.places()[0];
        thread_local!(static MANAGER: RefCell<Option<crate::Manager>> = const { RefCell::new(None) });
        MANAGER.set(Some(interface.manage(place).unwrap()));
        let own = interface.create::<Memory>(place, Some("a"), 3).unwrap();
        let frames = interface.with(&own, |memory, pool| {
            drop(MANAGER.take());
            assert!(!is_manager());
            memory.frame(2).unwrap().fill(1);
            (memory.len(), pool.bytes() > 0)
        });
        assert_eq!(frames.unwrap(), (3, true));
        // And what it had has gone with it.
        assert!(interface.with(&own, |_, _| ()).is_err());
    }
}
