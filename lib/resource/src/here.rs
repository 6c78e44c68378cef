//! What the calling thread is to an interface: the manager of a place, or a guest.

use std::cell::{Cell, RefCell, RefMut};
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::desk::{Caller, Serving};
use kumiki_sys::pause::pause;

use crate::core::Core;
use crate::error::{Error, Outcome};
use crate::id::Place;

/// A manager's own things, in its thread.
pub(crate) struct Here {
    /// The interface's number.
    interface: u64,
    pub(crate) core: Core,
    /// The server of a thread that does something else beside; others are within their server's
    /// rounds whenever anything runs.
    pub(crate) server: RefCell<Option<Serving>>,
}

impl Here {
    #[inline(always)]
    pub(crate) fn is(&self, interface: u64, place: Place) -> bool {
        self.interface == interface && self.core.place == place
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
    /// A [`ManagerGuard`]'s value, or null. Without a destructor, so that reading it is a load.
    static HERE: Cell<*const Here> = const { Cell::new(ptr::null()) };
    /// True while this thread is within an operation on a resource that it manages.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
    /// Values that went within an operation: they stay until the outermost has ended.
    static GONE: RefCell<Vec<Rc<Here>>> = const { RefCell::new(Vec::new()) };
    /// This thread's callers: interface, place, caller. One that waits is borrowed: what a
    /// manager serves meanwhile may need another one.
    pub(crate) static CALLERS: RefCell<Vec<(u64, Place, CallerRef)>> = const { RefCell::new(Vec::new()) };
}

pub(crate) type CallerRef = Rc<RefCell<Caller>>;

/// Tables that a manager's thread takes apart when it ends, and another one if it was killed.
#[derive(Default)]
pub(crate) struct LeftTables(Mutex<Option<Tables>>);

struct Tables(Rc<Here>);

// SAFETY: its manager's thread uses it, or, after that has died, one other.
unsafe impl Send for Tables {}

impl LeftTables {
    fn take(&self) -> Option<Tables> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Destroys the resources of a manager that was killed.
    ///
    /// # Safety
    /// The manager's thread has died.
    pub(crate) unsafe fn settle(&self) {
        let Some(Tables(here)) = self.take() else { return };
        while Rc::strong_count(&here) > 1 {
            // SAFETY: a count of the thread's, which nobody will take down any more.
            unsafe { Rc::decrement_strong_count(Rc::as_ptr(&here)) };
        }
    }
}

/// Guard of a manager: as long as it lives, the calling thread is the manager of a place.
pub(crate) struct ManagerGuard {
    here: Rc<Here>,
    left_tables: Arc<LeftTables>,
}

impl ManagerGuard {
    pub(crate) fn new(
        interface: u64,
        core: Core,
        server: Option<Serving>,
        left_tables: Arc<LeftTables>,
    ) -> ManagerGuard {
        // Made by a guest, they sleep at bells of their own.
        drop(CALLERS.take());
        let here = Rc::new(Here { interface, core, server: RefCell::new(server) });
        HERE.set(Rc::as_ptr(&here));
        let left = Tables(Rc::clone(&here));
        *left_tables.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(left);
        ManagerGuard { here, left_tables }
    }

    /// The place's tables and callers.
    pub(crate) fn here(&self) -> &Here {
        &self.here
    }

    /// Serves for the last time.
    pub(crate) fn end(&self) {
        let server = self.here.server.try_borrow_mut().ok().and_then(|mut server| server.take());
        server.into_iter().for_each(Serving::end);
    }
}

impl Drop for ManagerGuard {
    fn drop(&mut self) {
        drop(CALLERS.take());
        HERE.set(ptr::null());
        if IS_WITHIN.get() {
            GONE.with_borrow_mut(|gone| gone.push(Rc::clone(&self.here)));
        }
        drop(self.left_tables.take());
    }
}

/// True if the calling thread manages a place of some interface.
pub(crate) fn is_manager() -> bool {
    !HERE.get().is_null()
}

/// An operation of the calling thread on what it manages.
pub(crate) struct OperationGuard {
    here: *const Here,
    /// True within another one.
    nested: bool,
}

impl OperationGuard {
    /// Enters, without a count of who holds it, as [`here`] has: changing that twice takes as long
    /// as the rest of an operation.
    #[inline(always)]
    pub(crate) fn new() -> Option<OperationGuard> {
        let here = HERE.get();
        if here.is_null() {
            return None;
        }
        let nested = IS_WITHIN.get();
        if !nested {
            IS_WITHIN.set(true);
        }
        Some(OperationGuard { here, nested })
    }

    #[inline(always)]
    pub(crate) fn here(&self) -> &Here {
        // SAFETY: of a `ManagerGuard` of this thread, which, if it went since `new`, has left it
        // in `GONE` until `drop`.
        unsafe { &*self.here }
    }
}

impl Drop for OperationGuard {
    #[inline(always)]
    fn drop(&mut self) {
        // By a branch: what is stored does not wait for what was loaded, so that operations
        // overlap.
        if !self.nested {
            IS_WITHIN.set(false);
            if HERE.get() != self.here {
                has_gone();
            }
        }
    }
}

#[cold]
fn has_gone() {
    drop(GONE.take());
}

/// Runs `f` with the core of the calling thread, a manager of `interface`.
#[inline(always)]
pub(crate) fn own<R>(f: impl FnOnce(&Core) -> R) -> R {
    f(&OperationGuard::new().expect("a request is served by a manager").here().core)
}

/// The place that the calling thread manages. It stays as long as the value: an operation that
/// runs meanwhile may drop the [`ManagerGuard`].
#[inline(always)]
pub(crate) fn here() -> Option<Rc<Here>> {
    let here = HERE.get();
    if here.is_null() {
        return None;
    }
    // SAFETY: from the `Rc` of a `ManagerGuard` of this thread, which resets it when it goes.
    unsafe { Rc::increment_strong_count(here) };
    // SAFETY: as above, counted just now.
    Some(unsafe { Rc::from_raw(here) })
}

/// The server with which a manager serves while it waits for another place; none of a
/// guest. Within an operation neither waits: somebody may be waiting for what it holds.
pub(crate) fn serving(here: Option<&Here>) -> Outcome<Option<RefMut<'_, Serving>>> {
    let what = "another place";
    let Some(here) = here else { return Ok(None) };
    here.idle().map(Some).ok_or_else(|| Error::Nested { place: here.core.place, what }.into())
}

/// Pause between two looks of a manager that waits for an answer which another thread has asked
/// for: neither is its bell rung for that, nor is it woken for its own callers.
const PAUSE: Duration = Duration::from_micros(50);

pub(crate) fn serve_until(server: &mut Serving, is_over: impl Fn() -> bool) {
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
