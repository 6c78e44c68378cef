//! 4 KiB pages for any thread: each has a pool of its own.
//!
//! ```
//! use kumiki_resource::page::Page;
//!
//! let mut page = Page::new()?;
//! page.bytes_mut().fill(7);
//! // Freed by another thread it goes back to the pool that it is from.
//! std::thread::spawn(move || assert_eq!(page.bytes_mut()[4095], 7)).join().unwrap();
//! # Ok::<(), kumiki_resource::Error>(())
//! ```
//!
//! Memory once had from the system stays with the process. The pool of a thread that ends
//! goes to the next one that needs a pool, so there are never more pools than threads have
//! been alive at the same time; and a thread takes what is free elsewhere before it asks the
//! system, but for some 6 MiB that each keeps to itself. So [`bytes`] is what has been in use
//! at one time, and up to 8 MiB for each thread alive then.

use std::cell::UnsafeCell;
use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use crate::error::Result;
use crate::frames::{self, FRAME, Frames};

/// Bytes of a page.
pub const PAGE_BYTES: usize = FRAME;

thread_local! {
    /// This thread's pool, or none. In the thread's own memory and without a destructor: a
    /// page that is freed and taken again goes by one word there, which is a matter of
    /// registers where the processor forwards a store to a load of the same address.
    static POOL: UnsafeCell<Frames> = const { UnsafeCell::new(Frames::NONE) };
    /// Gives it up at the thread's end.
    static LEAVING: Leaving = const { Leaving };
}

/// Runs `f` with this thread's pool.
#[inline(always)]
fn with_pool<R>(f: impl FnOnce(&mut Frames) -> R) -> R {
    // SAFETY: this thread's, and nobody is at it: none of its functions calls out.
    POOL.with(|pool| f(unsafe { &mut *pool.get() }))
}

struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        let pool = with_pool(|pool| mem::replace(pool, Frames::NONE));
        if !pool.is_none() {
            leave(pool);
        }
    }
}

/// Pools whose threads have ended: a list that grows by small blocks, since where pages are
/// the program's [allocator](crate::PageAlloc) a larger one would come from here.
static LEFT: Mutex<Option<Box<EndedPools>>> = Mutex::new(None);

struct EndedPools {
    pool: Frames,
    next: Option<Box<EndedPools>>,
}

fn left() -> MutexGuard<'static, Option<Box<EndedPools>>> {
    LEFT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A pool that somebody has left, or a new one.
pub(crate) fn enter() -> Frames {
    let first = {
        let mut list = left();
        let mut first = list.take();
        *list = first.as_mut().and_then(|first| first.next.take());
        first
    };
    first.map_or_else(Frames::new, |first| first.pool)
}

/// Leaves a pool to the next one who needs one.
pub(crate) fn leave(mut pool: Frames) {
    pool.put_all();
    let mut first = Box::new(EndedPools { pool, next: None });
    let mut list = left();
    first.next = list.take();
    *list = Some(first);
}

/// A page of memory, of any content.
///
/// # Errors
/// The system has no memory left.
#[inline]
pub fn allocate() -> Result<NonNull<u8>> {
    match with_pool(Frames::take_held) {
        Some(page) => Ok(page),
        None => with_any_pool(Frames::take),
    }
}

/// Gives a page back. It goes home in a batch of 63 if another thread allocated it.
///
/// # Safety
/// `page` is from [`allocate`] in this process, and nobody uses it any more.
#[inline]
pub unsafe fn free(page: NonNull<u8>) {
    // SAFETY: the caller's promise.
    if !with_pool(|pool| unsafe { pool.keep(page) }) {
        // SAFETY: the caller's promise.
        with_any_pool(|pool| unsafe { pool.give(page) });
    }
}

/// Memory that all threads' pools have from the system, used or free, bytes.
pub fn bytes() -> usize {
    frames::all_bytes()
}

/// Sends home what this thread has freed of others' and not sent yet.
pub fn flush() {
    with_pool(Frames::send);
}

/// Calls `f` with this thread's pool, which it gets if it has none.
#[inline(never)]
fn with_any_pool<R>(f: impl FnOnce(&mut Frames) -> R) -> R {
    if with_pool(|pool| !pool.is_none()) {
        return with_pool(f);
    }
    let mut pool = enter();
    let result = f(&mut pool);
    if LEAVING.try_with(|_| ()).is_ok() {
        with_pool(|none| *none = pool);
    } else {
        // The thread is ending.
        leave(pool);
    }
    result
}

/// A page that frees itself.
#[derive(Debug)]
pub struct Page(NonNull<u8>);

// SAFETY: the memory is this value's alone, and any thread may free it.
unsafe impl Send for Page {}
// SAFETY: a shared one is only read.
unsafe impl Sync for Page {}

impl Page {
    /// A page of zeros.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn new() -> Result<Page> {
        let page = allocate()?;
        // SAFETY: a page that was just allocated.
        unsafe { page.write_bytes(0, PAGE_BYTES) };
        Ok(Page(page))
    }

    /// A page of any content.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn uninit() -> Result<UninitPage> {
        Ok(UninitPage(allocate()?))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: this value's alone, and initialised.
        unsafe { self.0.cast().as_ref() }
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        // SAFETY: as above.
        unsafe { self.0.cast().as_mut() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: allocated, and the value is gone.
        unsafe { free(self.0) };
    }
}

/// A page whose bytes are to be written first.
#[derive(Debug)]
pub struct UninitPage(NonNull<u8>);

// SAFETY: as for `Page`.
unsafe impl Send for UninitPage {}

impl UninitPage {
    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>; PAGE_BYTES] {
        // SAFETY: this value's alone; any content will do.
        unsafe { self.0.cast().as_mut() }
    }
}

impl Drop for UninitPage {
    fn drop(&mut self) {
        // SAFETY: as for `Page`.
        unsafe { free(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[test]
    fn the_pool_of_a_thread_that_ended_is_used_again() {
        let addresses = || {
            let pages: Vec<_> = (0..300).map(|_| Page::new().unwrap()).collect();
            pages.iter().map(|page| page.bytes().as_ptr().addr()).collect::<BTreeSet<_>>()
        };
        let mut ever = BTreeSet::new();
        for _ in 0..20 {
            ever.extend(thread::spawn(addresses).join().unwrap());
        }
        // Other tests' threads may have a pool of ours meanwhile.
        assert!(ever.len() < 20 * 300, "{}", ever.len());
    }

    #[test]
    fn a_new_page_is_zero_whatever_it_held() {
        let mut page = Page::new().unwrap();
        page.bytes_mut().fill(9);
        drop(page);
        assert!(Page::new().unwrap().bytes().iter().all(|byte| *byte == 0));
        let mut page = Page::uninit().unwrap();
        page.bytes_mut()[0].write(1);
    }

    #[test]
    fn a_thread_that_ends_may_still_allocate_and_free() {
        thread_local! {
            static LATE: Cell<Option<Page>> = const { Cell::new(None) };
        }
        thread::spawn(|| {
            LATE.set(Some(Page::new().unwrap()));
            drop(Page::new().unwrap());
        })
        .join()
        .unwrap();
    }
}
