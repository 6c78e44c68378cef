//! What the calling thread is to an interface: the manager of a place, or a guest.

use std::cell::RefCell;
use std::rc::Rc;

use kumiki_slot::{Caller, Server};
use kumiki_wait::{Policy, Waiter};

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
    pub(crate) server: RefCell<Option<Server>>,
}

thread_local! {
    static HERE: RefCell<Option<Rc<Here>>> = const { RefCell::new(None) };
    /// This thread's callers: interface, place, caller.
    static CALLERS: RefCell<Vec<(u64, Place, Caller)>> = const { RefCell::new(Vec::new()) };
}

/// As long as it lives, the calling thread is the manager of a place.
pub(crate) struct Seated {
    here: Rc<Here>,
}

impl Seated {
    pub(crate) fn new(interface: u64, core: Core<Owned>, server: Option<Server>) -> Seated {
        let here = Rc::new(Here { interface, core, server: RefCell::new(server) });
        HERE.set(Some(Rc::clone(&here)));
        Seated { here }
    }

    /// What it has.
    pub(crate) fn here(&self) -> &Here {
        &self.here
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        CALLERS.with_borrow_mut(Vec::clear);
        HERE.set(None);
    }
}

/// Whether the calling thread manages a place of some interface.
pub(crate) fn is_manager() -> bool {
    HERE.with_borrow(Option::is_some)
}

/// Runs `f` with the core of the calling thread, a manager of `interface`.
pub(crate) fn own<R>(f: impl FnOnce(&Core<Owned>) -> R) -> R {
    HERE.with_borrow(|here| f(&here.as_ref().expect("a request is served by a manager").core))
}

/// Runs `f` at `place`: at once if that is the calling thread's, else there, by its
/// manager.
#[inline]
pub(crate) fn run_at<R: Send>(
    interface: &PerCore,
    place: Place,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send,
) -> Result<R> {
    HERE.with_borrow(|here| match here {
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
    })
}

fn call<R: Send>(
    interface: &PerCore,
    place: Place,
    server: Option<&mut Server>,
    f: impl FnOnce(&Core<Owned>) -> Result<R> + Send,
) -> Result<R> {
    let door = interface.door(place)?;
    CALLERS.with_borrow_mut(|callers| {
        let number = interface.number;
        let known = callers.iter().position(|(of, at, _)| (*of, *at) == (number, place));
        let at = match known {
            Some(at) => at,
            None => {
                let waiter = Waiter::new(&interface.policy).or(Waiter::new(&Policy::default()))?;
                let caller = match &server {
                    Some(server) => door.caller_of(server, waiter),
                    None => door.caller(waiter),
                };
                // Of interfaces that have ended.
                callers.retain(|(_, _, caller)| !caller.is_gone());
                callers.push((number, place, caller));
                callers.len() - 1
            }
        };
        let caller = &mut callers[at].2;
        let outcome = match server {
            Some(server) => caller.call_serving(|| own(f), server),
            None => caller.call(|| own(f)),
        };
        outcome.unwrap_or_else(|source| {
            let place = interface.name(place).unwrap_or_default().to_owned();
            Err(Error::Manager { place, source })
        })
    })
}
