//! Memory that stays the same memory in a forked child.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::{Error, Result};

/// A cache line of its own, and the neighbour that the processor fetches with it.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

/// Shared bytes, zero at first. What is in them is only ever reached by
/// pointers and atomics: the other process writes whenever it likes.
pub(crate) struct SharedBytes {
    start: NonNull<c_void>,
    bytes: usize,
}

impl SharedBytes {
    /// Maps `bytes` bytes, at least one.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel picks touches nothing
        // that exists.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::SHARED) }
            .map_err(|e| Error::os(format!("map {bytes} bytes of shared memory"), e))?;
        let start = NonNull::new(start).expect("mmap does not return null without MAP_FIXED");
        Ok(SharedBytes { start, bytes })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start.cast()
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; whoever holds a pointer
        // into it borrows `self`.
        let outcome = unsafe { munmap(self.start.as_ptr(), self.bytes) };
        debug_assert!(outcome.is_ok(), "munmap: {outcome:?}");
    }
}

/// A value in shared memory: something made of atomics.
pub(crate) struct Shared<T> {
    value: NonNull<T>,
    _memory: SharedBytes,
}

impl<T: Default + Sync> Shared<T> {
    /// Maps memory for a `T`.
    pub(crate) fn new() -> Result<Self> {
        const { assert!(!std::mem::needs_drop::<T>() && align_of::<T>() <= 4096) };
        let memory = SharedBytes::new(size_of::<T>())?;
        let value = memory.start().cast::<T>();
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
