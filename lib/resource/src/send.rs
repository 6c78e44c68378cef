//! Where an operation runs: in the calling thread if that is the owner, else it is sent.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use crate::desk::{self, LINES, Panic, Serving};
use kumiki_wait::{Policy, Waiter};

use crate::answer::{Answer, arrived};
use crate::core::Core;
use crate::error::{Error, Outcome, Result};
use crate::here::{CALLERS, CallerRef, OperationGuard, here, own, serving};
use crate::id::{Id, Place};
use crate::kind::Kind;
use crate::per_core::PerCore;

/// Runs `f` at `place`: at once if that is the calling thread's, else there, by its
/// manager.
#[inline]
pub(crate) fn run_at<R: Send>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core) -> Outcome<R> + Send,
) -> Outcome<R> {
    if let Some(within) = OperationGuard::new() {
        if within.here().is(interface.number, place) {
            return f(&within.here().core);
        }
    }
    run_there(interface, place, f)
}

/// Runs `f` on a resource, as [`run_at`] does. A panic of it is caught at the caller's own place, too: around `f` alone, where
/// the compiler sees whether it can panic. Around all of it the guard takes as long as the rest.
#[inline]
pub(crate) fn catch_at<K: Kind, R: Send>(
    interface: &PerCore,
    id: Id,
    f: impl FnOnce(&mut K, &mut K::Pool) -> R + Send,
) -> Outcome<R> {
    let place = id.place();
    if let Some(within) = OperationGuard::new() {
        if within.here().is(interface.number, place) {
            let guarded = |resource: &mut K, pool: &mut K::Pool| {
                catch_unwind(AssertUnwindSafe(|| f(resource, pool)))
            };
            let ran = within.here().core.with::<K, _>(id, guarded)?;
            return ran.map_err(|payload| panicked(place, payload));
        }
    }
    // `move`: an id that is borrowed is a line of the caller's stack to fetch.
    run_there(interface, place, move |core| core.with::<K, R>(id, f))
}

#[cold]
fn panicked(place: Place, payload: Box<dyn Any + Send>) -> Box<Error> {
    Error::manager(place, desk::Error::Panicked(Panic::new(payload))).into()
}

/// Apart, so that what runs at once has none of it in its way.
#[inline(never)]
fn run_there<R: Send>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core) -> Outcome<R> + Send,
) -> Outcome<R> {
    let here = here();
    let mut server = serving(here.as_deref())?;
    let caller = caller(interface, place, server.as_deref())?;
    let mut caller = caller.borrow_mut();
    arrived(caller.call_serving(|| own(f), server.as_deref_mut()), place)
}

/// Runs as [`run_at`], for `timeout` at most.
pub(crate) fn run_at_timeout<R: Send + 'static>(
    interface: &PerCore,
    place: Place,
    timeout: Duration,
    f: impl FnOnce(&Core) -> Outcome<R> + Send + 'static,
) -> Outcome<R> {
    let here = here();
    if let Some(here) = &here {
        if here.is(interface.number, place) {
            return f(&here.core);
        }
    }
    let mut server = serving(here.as_deref())?;
    let caller = caller(interface, place, server.as_deref())?;
    let mut caller = caller.borrow_mut();
    arrived(caller.call_timeout_serving(timeout, || own(f), server.as_deref_mut()), place)
}

/// Has `f` run at `place` and does not wait: at once if that is the calling thread's.
#[inline]
pub(crate) fn start_at<R: Send + 'static>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core) -> Outcome<R> + Send + 'static,
) -> Result<Answer<R>> {
    let here = here();
    if let Some(here) = &here {
        if here.is(interface.number, place) {
            return Ok(Answer::here(f(&here.core)));
        }
    }
    // In use within a request: what is started there others wait for.
    let server = here.as_ref().and_then(|here| here.server.try_borrow().ok());
    let server = server.as_deref().and_then(Option::as_ref);
    let answer = caller(interface, place, server)?.borrow_mut().submit(move || own(f));
    let answer = answer.map_err(|source| Error::manager(place, source))?;
    Ok(Answer::there(answer, interface.number, place))
}

/// A caller of a place that this thread has, that is not waiting and has room; or a
/// further one, while fewer than [`LINES`] requests are under way: one answer that is not
/// taken is to hold up no others.
#[inline]
fn caller(interface: &PerCore, place: Place, server: Option<&Serving>) -> Outcome<CallerRef> {
    let quick = CALLERS.with_borrow(|callers| {
        let free = |one: &&(u64, Place, CallerRef)| {
            is_idle(one, interface, place, server) && one.2.borrow().has_free_line()
        };
        callers.iter().find(free).map(|one| Rc::clone(&one.2))
    });
    match quick {
        Some(quick) => Ok(quick),
        None => caller_with_room(interface, place, server),
    }
}

/// True if this is a caller of a place and is not waiting.
#[inline(always)]
fn is_idle(
    (of, at, caller): &(u64, Place, CallerRef),
    interface: &PerCore,
    place: Place,
    server: Option<&Serving>,
) -> bool {
    (*of, *at) == (interface.number, place)
        && caller.try_borrow_mut().is_ok_and(|c| server.is_none_or(|server| c.rings(server)))
}

#[cold]
fn caller_with_room(
    interface: &PerCore,
    place: Place,
    server: Option<&Serving>,
) -> Outcome<CallerRef> {
    let is_idle = |one: &_| is_idle(one, interface, place, server);
    let (mut from, mut under_way, mut full) = (0, 0, None);
    loop {
        let next = CALLERS.with_borrow(|callers| {
            let at = from + callers.get(from..)?.iter().position(is_idle)?;
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
        _ => another_caller(interface, place, server),
    }
}

#[cold]
fn another_caller(
    interface: &PerCore,
    place: Place,
    server: Option<&Serving>,
) -> Outcome<CallerRef> {
    let door = interface.door(place)?;
    let waiter = Waiter::new(&interface.policy).or(Waiter::new(&Policy::default()));
    let waiter = waiter.map_err(Error::from)?;
    let caller = Rc::new(RefCell::new(match server {
        Some(server) => door.caller_of(server, waiter),
        None => door.caller(waiter),
    }));
    let mine = (interface.number, place, Rc::clone(&caller));
    // Of interfaces that have ended; dropped when the list is free, as above.
    let gone: Vec<_> = CALLERS.with_borrow_mut(|callers| {
        let gone = |one: &(u64, Place, CallerRef)| one.2.try_borrow().is_ok_and(|c| c.is_gone());
        let (mut all, mut at) = (Vec::new(), 0);
        while let Some(one) = callers.get(at) {
            match gone(one) {
                true => all.push(callers.remove(at)),
                false => at += 1,
            }
        }
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
    use crate::here::is_manager;
    use crate::{Interface, Memory};

    fn mine() -> Vec<CallerRef> {
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
        assert_eq!(early.wait().unwrap(), 1);
        within.unwrap().wait().unwrap();
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
            (memory.len(), pool.bytes() % (2 << 20) == 0)
        });
        assert_eq!(frames.unwrap(), (3, true));
        // And what it had has gone with it.
        assert!(interface.with(&own, |_, _| ()).is_err());
    }
}
