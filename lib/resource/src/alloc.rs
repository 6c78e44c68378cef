//! Pages as a program's global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};

use crate::page::{self, PAGE_BYTES};

/// A global allocator that takes blocks of more than half a page, and of a page at most,
/// from the calling thread's [pages](crate::page), and all others from another allocator.
///
/// ```
/// use kumiki_resource::PageAlloc;
///
/// #[global_allocator]
/// static ALLOCATOR: PageAlloc = PageAlloc::SYSTEM;
///
/// let buffer = vec![7_u8; 4096];
/// assert_eq!(buffer.as_ptr().addr() % 4096, 0);
/// std::thread::spawn(move || assert_eq!(buffer[4095], 7)).join().unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageAlloc<A = System>(A);

impl PageAlloc {
    /// Allocator with the system's for the rest.
    pub const SYSTEM: PageAlloc = PageAlloc(System);
}

impl<A: GlobalAlloc> PageAlloc<A> {
    /// Makes an allocator with this one for the rest.
    pub const fn with(rest: A) -> Self {
        PageAlloc(rest)
    }
}

/// True if a page is for it: of smaller blocks it would waste more than it holds.
#[inline]
fn is_page(layout: Layout) -> bool {
    layout.size() > PAGE_BYTES / 2 && layout.size() <= PAGE_BYTES && layout.align() <= PAGE_BYTES
}

// SAFETY: a page is as long and as aligned as `is_page` demands, nobody else's until it is
// freed, and freed where the same layout says that it is one. The rest is the other's.
unsafe impl<A: GlobalAlloc> GlobalAlloc for PageAlloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_page(layout) {
            return page::allocate().map_or(ptr::null_mut(), NonNull::as_ptr);
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match NonNull::new(block).filter(|_| is_page(layout)) {
            // SAFETY: of this layout, so allocated above, and used no more.
            Some(page) => unsafe { page::free(page) },
            // SAFETY: the caller's promise.
            None => unsafe { self.0.dealloc(block, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_page(layout) {
            // SAFETY: the caller's promise.
            return unsafe { self.0.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's promise.
        let page = unsafe { self.alloc(layout) };
        if !page.is_null() {
            // SAFETY: as long as that, and nobody else's.
            unsafe { page.write_bytes(0, layout.size()) };
        }
        page
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise: the new size fits an isize when rounded up.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (is_page(layout), is_page(new)) {
            (true, true) => return block,
            // SAFETY: the caller's promise.
            (false, false) => return unsafe { self.0.realloc(block, layout, bytes) },
            _ => {}
        }
        // SAFETY: the caller's promise: the new size is not 0.
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            let both = layout.size().min(bytes);
            // SAFETY: both have so many bytes, and are different blocks.
            unsafe { ptr::copy_nonoverlapping(block, moved, both) };
            // SAFETY: the caller's promise.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}
