//! Names that come and go.

use std::ffi::{CString, c_char, c_int};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use kumiki_resource::{Change, Pattern};

use super::manager::limit;
use super::{ResourceInterface, hand_out, null, open, optional};
use crate::failure::{Failure, answer};
use crate::resource_abi::ResourceChange;

/// `struct kumiki_resource_watch`.
pub struct ResourceWatch {
    changes: Receiver<Change>,
    /// The name that was told last.
    name: CString,
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_watch(
    interface: *const ResourceInterface,
    pattern: *const c_char,
    watch: *mut *mut ResourceWatch,
) -> c_int {
    answer(|| {
        if watch.is_null() {
            return Err(null("place for the watch"));
        }
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let pattern = unsafe { optional(pattern) }?;
        let changes = this.watch(&pattern.map_or_else(|| Ok(Pattern::all()), Pattern::new)?)?;
        let made = ResourceWatch { changes, name: CString::default() };
        // SAFETY: not null, so valid, the caller says.
        Ok(unsafe { hand_out(watch, made) })
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid; nobody else uses the watch meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_watch_next(
    watch: *mut ResourceWatch,
    timeout_ns: u64,
    change: *mut ResourceChange,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { watch.as_mut() }.ok_or_else(|| null("watch"))?;
        if change.is_null() {
            return Err(null("place for the change"));
        }
        let next = this.changes.recv_timeout(limit(timeout_ns)).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                let text = format!("no name has come or gone within {timeout_ns} ns; wait again");
                Failure::new(libc::ETIMEDOUT, text)
            }
            RecvTimeoutError::Disconnected => {
                Failure::new(libc::ESHUTDOWN, "the interface was destroyed: end the watch")
            }
        })?;
        let Change { name, id, created } = next;
        this.name = CString::new(name).unwrap_or_default();
        let told = ResourceChange {
            name: this.name.as_ptr(),
            id: id.to_u64(),
            created: created.into(),
            reserved: 0,
        };
        // SAFETY: not null, so valid, the caller says.
        unsafe { change.write(told) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `watch` is null, or from [`kumiki_resource_watch`] and not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_watch_end(watch: *mut ResourceWatch) {
    if !watch.is_null() {
        // SAFETY: from a box, and this is its last use.
        drop(unsafe { Box::from_raw(watch) });
    }
}
