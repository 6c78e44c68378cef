//! What C's library keeps of a thread's heap, in a process that it has not been asked in before.

#![cfg(target_env = "gnu")]

use std::sync::atomic::Ordering::Relaxed;

mod child;

/// Resident bytes of this process (proc(5)).
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

/// Bytes that are resident after much was freed by a thread that is there yet, and given back.
fn left() -> usize {
    let own = std::thread::spawn(|| {
        let before = resident();
        // Once such a block was freed, smaller ones are of the thread's heap.
        drop(vec![1_u8; 16 << 20]);
        let blocks: Vec<Vec<u8>> = (0..240).map(|_| vec![1; 100 << 10]).collect();
        drop(blocks);
        kumiki_sys::heap::give_back();
        resident().saturating_sub(before)
    });
    own.join().unwrap()
}

/// Asks a child for a bound, before it has threads.
const ASKED: &str = "KUMIKI_TEST_HEAP_BOUND";
static COULD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Run by the C library before the tests' own main, which has threads.
extern "C" fn bound_if_asked() {
    if std::env::var_os(ASKED).is_some() {
        COULD.store(kumiki_sys::heap::keep_at_most(1 << 20), Relaxed);
    }
}

#[used]
// SAFETY: the section has pointers to functions without results.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = bound_if_asked;

#[test]
fn the_end_of_a_thread_s_heap_is_bounded() {
    let asked = [(ASKED, "1".to_owned())];
    child::in_a_child_with(asked, "the_end_of_a_thread_s_heap_is_bounded", || {
        assert!(COULD.load(Relaxed), "this process had threads");
        let left = left();
        assert!(left < 3 << 20, "{left} bytes");
        // Now it has.
        assert!(!kumiki_sys::heap::keep_at_most(1 << 20));
    });
}

/// What the bound is for: without it nothing gives that back.
#[test]
fn without_a_bound_it_stays() {
    child::in_a_child("without_a_bound_it_stays", || {
        let left = left();
        assert!(left > 16 << 20, "{left} bytes");
    });
}
