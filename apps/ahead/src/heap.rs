//! The library's own memory: a part of its region, so that a forked child begins with none of it in use,
//! and the program's allocator, which may be one for a single thread, is never called by our threads.
//!
//! Blocks are of powers of two. What is freed is kept in a list for its size; nothing is given back.
//! Nothing here is promised to succeed: all that grows asks by `try_reserve`.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Blocks of 16 bytes to 2 MiB.
const SMALLEST: u32 = 4;
const LARGEST: u32 = 21;
const SIZES: usize = (LARGEST - SMALLEST + 1) as usize;

/// Free blocks by their size, and where untouched memory begins.
#[derive(Debug)]
pub(crate) struct Heap(Mutex<Blocks>);

#[derive(Debug)]
struct Blocks {
    next: usize,
    end: usize,
    free: [usize; SIZES],
}

impl Heap {
    /// Hands out memory from `from` to `to`, which nothing else uses.
    pub(crate) fn new(from: usize, to: usize) -> Self {
        Heap(Mutex::new(Blocks { next: from, end: to, free: [0; SIZES] }))
    }

    fn take(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else { return ptr::null_mut() };
        let Ok(mut blocks) = self.0.lock() else { return ptr::null_mut() };
        let Some(first) = blocks.free.get(class).copied() else { return ptr::null_mut() };
        if first != 0 {
            let first: *mut usize = ptr::with_exposed_provenance_mut(first);
            // SAFETY: a block in the list is free, at least 16 bytes and aligned to its size; `give` has written
            // the next one's address there.
            let next = unsafe { first.read() };
            if let Some(head) = blocks.free.get_mut(class) {
                *head = next;
            }
            return first.cast();
        }
        let size = 1_usize << (class as u32 + SMALLEST);
        // A block is aligned to its size, up to a page.
        let align = size.min(4096);
        let Some(from) = blocks.next.checked_next_multiple_of(align) else {
            return ptr::null_mut();
        };
        match from.checked_add(size) {
            Some(to) if to <= blocks.end => {
                blocks.next = to;
                ptr::with_exposed_provenance_mut(from)
            }
            _ => ptr::null_mut(),
        }
    }

    fn give(&self, block: *mut u8, layout: Layout) {
        let Some(class) = class(layout) else { return };
        let Ok(mut blocks) = self.0.lock() else { return };
        if let Some(head) = blocks.free.get_mut(class) {
            // SAFETY: the block is at least 16 bytes, aligned, and its owner gave it back.
            unsafe { block.cast::<usize>().write(*head) };
            *head = block.expose_provenance();
        }
    }
}

/// List of blocks for this layout; none that is too large.
fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).checked_next_power_of_two()?;
    let class = size.trailing_zeros().max(SMALLEST) - SMALLEST;
    (layout.align() <= 4096 && (class as usize) < SIZES).then_some(class as usize)
}

/// The region's, which a forked child finds without memory until it begins.
static HEAP: AtomicPtr<Heap> = AtomicPtr::new(ptr::null_mut());

/// Takes from that heap, or has nothing.
#[derive(Debug)]
struct Own;

impl Own {
    fn heap(&self) -> Option<&Heap> {
        // SAFETY: null, or the heap of a mapping that stays; all zeros are one that has nothing.
        unsafe { HEAP.load(Ordering::Acquire).as_ref() }
    }
}

/// Has all memory come from this heap, whose mapping stays.
pub(crate) fn take_from(heap: *mut Heap) {
    HEAP.store(heap, Ordering::Release);
}

// SAFETY: blocks do not overlap, are at least as large as asked and aligned to their size or a page; what cannot
// be had is null.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.heap().map_or(ptr::null_mut(), |heap| heap.take(layout))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(heap) = self.heap() {
            heap.give(block, layout);
        }
    }
}

#[cfg(not(test))]
#[global_allocator]
static OWN: Own = Own;

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(bytes: usize) -> (Vec<u128>, Heap) {
        let memory = vec![0_u128; bytes / 16];
        let from = memory.as_ptr().expose_provenance();
        (memory, Heap::new(from, from + bytes))
    }

    #[test]
    fn blocks_do_not_overlap_are_aligned_and_come_back() {
        let (_memory, heap) = heap(1 << 20);
        let layouts = [(1, 1), (16, 8), (17, 1), (100, 64), (4096, 4096), (5000, 8)];
        let layouts = layouts.map(|(size, align)| Layout::from_size_align(size, align).unwrap());
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for layout in layouts.iter().cycle().take(60) {
            let block = heap.take(*layout);
            assert!(!block.is_null() && block.addr() % layout.align() == 0);
            let (from, to) = (block.addr(), block.addr() + layout.size());
            assert!(taken.iter().all(|(first, last)| to <= *first || from >= *last));
            taken.push((from, to));
        }
        let block = heap.take(layouts[3]);
        heap.give(block, layouts[3]);
        assert_eq!(heap.take(layouts[3]), block);
    }

    #[test]
    fn what_is_not_there_is_null_and_the_rest_goes_on() {
        let (_memory, heap) = heap(64 << 10);
        let large = Layout::from_size_align(40 << 10, 8).unwrap();
        assert!(heap.take(large).is_null() || heap.take(large).is_null());
        assert!(heap.take(Layout::from_size_align(usize::MAX / 4, 8).unwrap()).is_null());
        assert!(!heap.take(Layout::new::<u64>()).is_null());
    }
}
