//! A thread of the program as the manager of a place.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use kumiki_resource::{Manager, Place};

use super::{ResourceInterface, hand_out, null, open};
use crate::failure::{Failure, answer};
use crate::identity::Thread;
use crate::resource_abi::KUMIKI_RESOURCE_FOREVER;

/// `struct kumiki_resource_manager`.
pub struct ResourceManager {
    owner: Thread,
    manager: Manager,
}

/// # Safety
/// `manager` is null, or from [`kumiki_resource_manager_create`] and not destroyed, and nobody
/// else uses it: its thread alone may, and is at no other call.
unsafe fn own<'a>(manager: *mut ResourceManager) -> Result<&'a mut ResourceManager, Failure> {
    // SAFETY: the caller's promise; the owner never changes.
    let owner = unsafe { manager.as_ref() }.ok_or_else(|| null("manager"))?.owner;
    if owner != Thread::current() {
        return Err(Failure::new(
            libc::EPERM,
            "a manager was used by another thread than the one that it is",
        ));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { &mut *manager })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_manager_create(
    interface: *const ResourceInterface,
    place: u16,
    manager: *mut *mut ResourceManager,
) -> c_int {
    answer(|| {
        if manager.is_null() {
            return Err(null("place for the manager"));
        }
        // SAFETY: the caller's promise.
        let made = unsafe { open(interface) }?.manage(Place(place))?;
        let made = ResourceManager { owner: Thread::current(), manager: made };
        // SAFETY: not null, so valid, the caller says.
        Ok(unsafe { hand_out(manager, made) })
    })
}

/// See the header.
///
/// # Safety
/// `manager` is null, or from [`kumiki_resource_manager_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_manager_serve(manager: *mut ResourceManager) -> c_int {
    // SAFETY: the caller's promise.
    answer(|| Ok(unsafe { own(manager) }?.manager.serve().into()))
}

/// See the header.
///
/// # Safety
/// `manager` is null, or from [`kumiki_resource_manager_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_manager_wait(
    manager: *mut ResourceManager,
    timeout_ns: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { own(manager) }?;
        this.manager.wait_timeout(limit(timeout_ns));
        Ok(0)
    })
}

/// Time for which C wants to wait.
pub(super) fn limit(timeout_ns: u64) -> Duration {
    /// Time that stands for ever, as far as clocks go.
    const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    match timeout_ns {
        KUMIKI_RESOURCE_FOREVER => LONG,
        _ => Duration::from_nanos(timeout_ns),
    }
}

/// See the header.
///
/// # Safety
/// `manager` is null, or from [`kumiki_resource_manager_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_manager_destroy(manager: *mut ResourceManager) -> c_int {
    answer(|| {
        if manager.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller's promise.
        unsafe { own(manager) }?;
        // SAFETY: from a box, and this is its last use.
        drop(unsafe { Box::from_raw(manager) });
        Ok(0)
    })
}

/// Unknown bits are refused, so that they may mean something one day.
pub(super) fn only(flags: c_uint, known: c_uint) -> Result<(), Failure> {
    if flags & !known == 0 {
        return Ok(());
    }
    Err(Failure::invalid(format!("the flags {flags:#x} have unknown bits")))
}
