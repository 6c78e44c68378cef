//! A part of memory behind a descriptor, of a device or of a memfd: a window between two kernels, say.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::FileType;
use rustix::mm::{MapFlags, ProtFlags};

use super::{Mapping, Sealed};
use crate::error::{Error, Result};

/// A part of what stands behind a character device, or behind a memfd that is sealed at its size: memory
/// that stays as long as it is mapped. An ordinary file is refused, as it could shrink under us.
///
/// ```
/// use std::sync::atomic::Ordering;
/// use kumiki_sys::shm::{Huge, Shared, Window};
///
/// let memory = Shared::new("example", 8192, Huge::Policy)?;
/// let part = Window::map(memory.fd(), 4096, 4096)?;
/// part.words(8, 2)[0].store(7, Ordering::Relaxed);
/// assert_eq!(memory.atomic_u64(4104).load(Ordering::Relaxed), 7);
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
#[derive(Debug)]
pub struct Window {
    mapping: Mapping,
}

impl Window {
    /// Maps `len` bytes at `offset` of what the descriptor stands for, for reading and writing; both are of
    /// whole pages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is neither, or has less; [`Error::Os`] if the device gives no such part.
    pub fn map(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Window> {
        check(fd, offset, len)?;
        let failed =
            |errno| Error::os(format!("mapping {len} bytes at {offset:#x} of a window"), errno);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (any, flags) = (ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { rustix::mm::mmap(any, len, access, flags, fd, offset) };
        // SAFETY: just mapped so; a device's memory and that of a sealed memfd stay; nobody else knows the
        // address.
        let mapping = unsafe { Mapping::new(start.map_err(failed)?, len) }.map_err(failed)?;
        Ok(Window { mapping })
    }
}

fn check(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<()> {
    if len == 0 || len > isize::MAX as usize {
        return Err(Error::Invalid(format!("a window of {len} bytes cannot be mapped")));
    }
    let errno = |errno| Error::os("looking at the descriptor of a window", errno);
    let stat = rustix::fs::fstat(fd).map_err(errno)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice {
        return Ok(());
    }
    let own: OwnedFd = fd.as_fd().try_clone_to_owned().map_err(|source| {
        Error::Invalid(format!("the descriptor of a window cannot be had twice: {source}"))
    })?;
    let has = Sealed::from_fd(own)?.len() as u64;
    if offset.checked_add(len as u64).is_some_and(|end| end <= has) {
        return Ok(());
    }
    Err(Error::Invalid(format!("{len} bytes at {offset:#x} end beyond the window's {has}")))
}

impl Deref for Window {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

/// Double words of a window, found and checked once: for who looks at them all the time.
#[derive(Clone, Debug)]
pub struct Words {
    first: NonNull<AtomicU64>,
    count: usize,
    /// Keeps them mapped.
    _window: Arc<Window>,
}

// SAFETY: it is a part of the window that it keeps, which threads may share.
unsafe impl Send for Words {}
// SAFETY: as above; the words are reached by atomics.
unsafe impl Sync for Words {}

impl Words {
    /// `count` double words from byte `offset` on.
    ///
    /// # Panics
    /// If they do not lie within the window or are not aligned.
    pub fn of(window: &Arc<Window>, offset: usize, count: usize) -> Words {
        let first = NonNull::from(window.words(offset, count)).cast();
        Words { first, count, _window: Arc::clone(window) }
    }
}

impl AsRef<[AtomicU64]> for Words {
    #[inline(always)]
    fn as_ref(&self) -> &[AtomicU64] {
        let first: *const AtomicU64 = self.first.as_ptr();
        // SAFETY: `of` has found them within the window, which stays mapped as long as it is kept.
        unsafe { std::slice::from_raw_parts(first, self.count) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::shm::{Huge, Shared};

    #[test]
    fn a_part_is_seen_by_all_and_nothing_else_is() {
        let memory = Shared::new("kumiki-test", 3 * 4096, Huge::Policy).unwrap();
        let part = Window::map(memory.fd(), 4096, 4096).unwrap();
        part.words(4096 - 16, 2)[1].store(9, Relaxed);
        assert_eq!(memory.atomic_u64(8192 - 8).load(Relaxed), 9);
        for (offset, len) in [(8192, 8192), (u64::MAX - 4095, 4096), (0, 0)] {
            let error = Window::map(memory.fd(), offset, len).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
        assert!(std::panic::catch_unwind(|| part.words(4096 - 16, 3).len()).is_err());
    }

    #[test]
    fn words_keep_their_window() {
        let memory = Shared::new("kumiki-test", 4096, Huge::Policy).unwrap();
        let window = Arc::new(Window::map(memory.fd(), 0, 4096).unwrap());
        let words = Words::of(&window, 16, 3);
        drop(window);
        words.as_ref()[2].store(9, Relaxed);
        assert_eq!((words.as_ref().len(), memory.atomic_u64(32).load(Relaxed)), (3, 9));
    }

    #[test]
    fn what_may_shrink_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let error = Window::map(file.as_fd(), 0, 4096).unwrap_err().to_string();
        assert!(error.contains("not Kumiki's shared memory"), "{error}");
    }
}
