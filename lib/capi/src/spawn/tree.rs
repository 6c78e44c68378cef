//! A child and all that comes of it, to be ended at once.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use kumiki_spawn::Child;

use super::as_errno;
use crate::failure::Failure;

/// `kumiki_spawn_tree_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Tree {
    inner: *mut Inner,
}

/// The last child that was started in it.
#[derive(Debug, Default)]
pub struct Inner(Mutex<Option<Child>>);

impl Inner {
    pub(super) fn hold(&self, child: Child) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    }
}

/// Null for none.
///
/// # Safety
/// Null, or initialised.
pub(super) unsafe fn of(tree: *const Tree) -> Result<*const Inner, Failure> {
    // SAFETY: the caller's promise.
    match unsafe { tree.as_ref() } {
        None => Ok(std::ptr::null()),
        Some(tree) if tree.inner.is_null() => Err(Failure::invalid("a tree that was destroyed")),
        Some(tree) => Ok(tree.inner),
    }
}

/// See the header.
///
/// # Safety
/// Null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_tree_init(tree: *mut Tree) -> c_int {
    as_errno(|| {
        if tree.is_null() {
            return Err(Failure::invalid("tree: a null pointer"));
        }
        let inner = Box::into_raw(Box::default());
        // SAFETY: the caller's promise.
        unsafe { tree.write(Tree { inner }) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// Initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_tree_kill(tree: *const Tree) -> c_int {
    as_errno(|| {
        // SAFETY: the caller's promise.
        let inner = unsafe { of(tree) }?;
        // SAFETY: as above.
        let Some(inner) = (unsafe { inner.as_ref() }) else {
            return Err(Failure::invalid("tree: a null pointer"));
        };
        match &mut *inner.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(child) => Ok(child.kill()?),
            None => Ok(()),
        }
    })
}

/// See the header.
///
/// # Safety
/// Null, or initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_tree_destroy(tree: *mut Tree) -> c_int {
    as_errno(|| {
        // SAFETY: the caller's promise.
        if let Some(tree) = unsafe { tree.as_mut() } {
            let inner = std::mem::replace(&mut tree.inner, std::ptr::null_mut());
            if !inner.is_null() {
                // SAFETY: a box of `kumiki_spawn_tree_init`, which nobody else has.
                drop(unsafe { Box::from_raw(inner) });
            }
        }
        Ok(())
    })
}
