//! What travels in the line and what in a box: in a process of its own,
//! as it counts allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kumiki_shadow::Shadow;

use crate::child::in_a_child;
use crate::common;

/// The system's allocator, and how often it was asked by any thread.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of a fork and join: the fewest of several, as the test's harness has
/// threads, too.
fn allocations<T: Send>(shadow: &mut Shadow, job: impl Fn() -> T + Copy + Send) -> usize {
    let counts = (0..20).map(|_| {
        let before = ASKED.load(Relaxed);
        drop(black_box(shadow.scope(|scope| scope.fork(job).join().unwrap())));
        ASKED.load(Relaxed) - before
    });
    counts.min().unwrap()
}

/// Of a job with this capture, and of one with this result.
fn both<T: Copy + Send + Sync>(shadow: &mut Shadow, value: T) -> [usize; 2] {
    let captured = allocations(shadow, move || _ = black_box(value));
    // The job captures one word.
    let place = &value;
    [captured, allocations(shadow, move || *place)]
}

#[test]
fn up_to_48_bytes_travel_in_the_line_and_more_in_a_box() {
    in_a_child("line::up_to_48_bytes_travel_in_the_line_and_more_in_a_box", count);
}

fn count() {
    #[derive(Clone, Copy)]
    #[repr(align(16))]
    struct Aligned(#[allow(dead_code, reason = "its size counts")] [u8; 16]);
    for mut shadow in [common::shadow(), Shadow::inline()] {
        assert_eq!(both(&mut shadow, [7_u8; 1]), [0, 0]);
        assert_eq!(both(&mut shadow, [7_u8; 48]), [0, 0]);
        assert_eq!(both(&mut shadow, [7_u64; 6]), [0, 0]);
        assert_eq!(both(&mut shadow, [7_u8; 49]), [1, 1]);
        // A line's words are aligned to words.
        assert_eq!(both(&mut shadow, Aligned([7; 16])), [1, 1]);
    }
}
