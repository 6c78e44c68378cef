//! A range of mapped memory, and safe ways to access it.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::munmap;

/// Mapped, readable and writable memory; unmapped on drop. It starts as
/// zeros and is aligned to its pages.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; it is unmapped
// once, by whoever owns it last.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping` memory is reached by atomics or by raw pointers,
// whose use is the caller's own unsafe business.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes over a fresh mapping.
    ///
    /// # Safety
    /// `start..start + len` is mapped readable and writable, is at most `isize::MAX`
    /// bytes long, stays backed while mapped, and no other code unmaps it or makes
    /// references into it.
    pub(super) unsafe fn new(start: *mut c_void, len: usize) -> Result<Self, Errno> {
        // Linux maps address 0 only if told to.
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(Mapping { start, len })
    }

    /// The first byte. Valid for [`len`](Self::len) bytes until this is dropped.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped: what was asked for, rounded up to whole pages.
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If it does not lie within the mapping or is not aligned.
    pub fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        let word: *mut u32 = self.at(offset);
        // SAFETY: `at` has checked bounds and alignment; the memory lives as
        // long as `self`, and everybody reaches it by atomics.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// The double word at byte `offset`.
    ///
    /// # Panics
    /// If it does not lie within the mapping or is not aligned.
    pub fn atomic_u64(&self, offset: usize) -> &AtomicU64 {
        let word: *mut u64 = self.at(offset);
        // SAFETY: as for `atomic_u32`.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// `count` double words from byte `offset` on.
    ///
    /// # Panics
    /// If they do not lie within the mapping or are not aligned.
    #[inline]
    pub fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        let first: *const AtomicU64 = self.at::<u64>(offset).cast();
        self.check(offset, count.saturating_mul(size_of::<u64>()));
        // SAFETY: bounds and alignment are checked; the memory lives as long as `self`, and
        // everybody reaches it by atomics.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// Copies out what is at byte `offset`, byte by byte: for names and headers. Another
    /// process may write meanwhile, so the copy is a claim to be checked, and may be half
    /// old and half new.
    ///
    /// # Panics
    /// If the range does not lie within the mapping.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let cells = self.bytes(offset, into.len());
        for (byte, cell) in into.iter_mut().zip(cells) {
            *byte = cell.load(Ordering::Relaxed);
        }
    }

    /// Copies `from` to byte `offset`, byte by byte. Publish it by an atomic
    /// store with Release afterwards.
    ///
    /// # Panics
    /// If the range does not lie within the mapping.
    pub fn write(&self, offset: usize, from: &[u8]) {
        for (byte, cell) in from.iter().zip(self.bytes(offset, from.len())) {
            cell.store(*byte, Ordering::Relaxed);
        }
    }

    fn bytes(&self, offset: usize, len: usize) -> impl Iterator<Item = &AtomicU8> {
        self.check(offset, len);
        (offset..offset + len).map(|offset| {
            let byte: *mut u8 = self.at(offset);
            // SAFETY: as for `atomic_u32`.
            unsafe { AtomicU8::from_ptr(byte) }
        })
    }

    /// A pointer to a `T` at byte `offset`, in bounds and aligned.
    fn at<T>(&self, offset: usize) -> *mut T {
        self.check(offset, size_of::<T>());
        assert!(
            offset % (align_of::<T>()) == 0,
            "offset {offset} is not a multiple of {}",
            align_of::<T>()
        );
        // SAFETY: `offset` is within the mapping, whose length fits an isize.
        unsafe { self.as_ptr().add(offset) }.cast()
    }

    fn check(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{len} bytes at offset {offset} end beyond the mapping's {}",
            self.len
        );
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this very range was mapped for us (`new`), and what borrowed
        // from `self` is gone.
        let outcome = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(outcome, Ok(()));
    }
}
