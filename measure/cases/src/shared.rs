//! A value that stays the same value in a forked child.

use std::ops::Deref;
use std::ptr::NonNull;

use kumiki_sys::shm::{self, Huge};

use kumiki_measure::error::Result;

/// A value in shared memory: something made of atomics. Reached as fast as any
/// other reference: bounds are settled here, once.
pub(super) struct Shared<T> {
    value: NonNull<T>,
    _memory: shm::Shared,
}

impl<T: Default + Sync> Shared<T> {
    /// Maps memory for a `T`.
    pub(super) fn new() -> Result<Self> {
        const { assert!(!std::mem::needs_drop::<T>() && align_of::<T>() <= 4096) };
        let memory = shm::Shared::new("kumiki-value", size_of::<T>(), Huge::Policy)?;
        let value = NonNull::new(memory.as_ptr().cast::<T>()).expect("a mapping is not at null");
        // SAFETY: the mapping is new, writable, as large as a `T`, and starts
        // on a page, so it is aligned for a `T`.
        unsafe { value.write(T::default()) };
        Ok(Shared { value, _memory: memory })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: initialised in `new` and mapped as long as `self`; `T: Sync`,
        // so that the other process's use of it is no different from another
        // thread's.
        unsafe { self.value.as_ref() }
    }
}
