//! The part of a pool that others reach, and how it is found from a frame's address.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::CHUNK;
use super::batch::{Batch, STOCK, last_of};

/// The part of a pool that others reach. It is never freed: any thread may still hold a frame.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Home {
    pub(super) returned: AtomicPtr<Batch>,
    /// The one that was made before it.
    pub(super) next: Option<&'static Home>,
}

/// The newest home, from which all are found.
static HOMES: AtomicPtr<Home> = AtomicPtr::new(ptr::null_mut());

impl Home {
    /// A new one, in the list.
    pub(super) fn new() -> &'static Home {
        let home = Box::leak(Box::new(Home { returned: AtomicPtr::default(), next: None }));
        let mut newest = HOMES.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or a home, which is never freed and changes no more.
            home.next = unsafe { newest.as_ref() };
            // Release: partners are the loads here and in `all`, for whom the home is whole.
            let entered =
                HOMES.compare_exchange_weak(newest, home, Ordering::Release, Ordering::Acquire);
            match entered {
                Ok(_) => return home,
                Err(now) => newest = now,
            }
        }
    }

    pub(super) fn all() -> impl Iterator<Item = &'static Home> {
        // SAFETY: null, or a home, which is never freed and changes no more.
        let newest = unsafe { HOMES.load(Ordering::Acquire).as_ref() };
        std::iter::successors(newest, |home| home.next)
    }

    /// Puts a batch that is the caller's onto the stack.
    pub(super) fn put(&self, batch: *mut Batch) {
        let mut head = self.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's until the exchange succeeds.
            let next = unsafe { &raw mut (*batch).next };
            // SAFETY: as above.
            unsafe { next.write(head) };
            // Release: partner is the swap in `fetch`.
            let push = self.returned.compare_exchange_weak(
                head,
                batch,
                Ordering::Release,
                Ordering::Relaxed,
            );
            match push {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Puts a chain of batches that is the caller's onto the stack, without a walk to its end:
    /// under what has come meanwhile, which is little.
    pub(super) fn put_chain(&self, mut first: *mut Batch) {
        while !first.is_null() {
            let none = ptr::null_mut();
            // Release: partner is the swap in `fetch`.
            let put =
                self.returned.compare_exchange(none, first, Ordering::Release, Ordering::Relaxed);
            if put.is_ok() {
                return;
            }
            let more = self.fetch();
            if let Some(last) = last_of(more) {
                // SAFETY: fetched, so this thread's.
                unsafe { (*last.as_ptr()).next = first };
                first = more;
            }
        }
    }

    /// Takes the whole stack.
    pub(super) fn fetch(&self) -> *mut Batch {
        // Looked at before: most are empty, and their lines stay where they are.
        if self.returned.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        // Acquire: partners are the exchanges in `put` and `put_chain`.
        self.returned.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes some batches; the others stay, since whoever needs a frame may not need many.
    pub(super) fn fetch_some(&self) -> *mut Batch {
        let first = self.fetch();
        let mut last = NonNull::new(first);
        for _ in 1..STOCK {
            // SAFETY: fetched, so this thread's.
            last = last.and_then(|batch| NonNull::new(unsafe { batch.as_ref() }.next));
        }
        if let Some(mut last) = last {
            // SAFETY: as above.
            let last = unsafe { last.as_mut() };
            self.put_chain(std::mem::replace(&mut last.next, ptr::null_mut()));
        }
        first
    }
}

/// A chunk's header, in its first frame.
pub(super) struct Chunk {
    pub(super) home: &'static Home,
}

/// Offset in the first frame: not its start, where the lines of all frames' first words would push
/// it out of the cache.
const HEADER: usize = 33 * 64;

/// The header of this frame's chunk.
#[inline(always)]
pub(super) fn chunk_of(frame: *mut u8) -> *mut Chunk {
    frame.map_addr(|at| at & !(CHUNK - 1) | HEADER).cast()
}

/// Home of a frame.
///
/// # Safety
/// It is a frame of some pool.
#[inline(always)]
pub(super) unsafe fn home_of(frame: NonNull<u8>) -> &'static Home {
    // SAFETY: each frame lies in a chunk, whose first frame never changes.
    unsafe { (*chunk_of(frame.as_ptr())).home }
}
