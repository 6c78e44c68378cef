//! Who calls: which thread, and from inside of which forked functions.
//!
//! Safe Rust needs none of this, because a `Shadow` stays in its thread and is
//! borrowed while a job of it runs. C can call anything from anywhere.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

/// A thread; numbers are not used again. In a child of fork(2) the thread that
/// called it keeps its number, and is the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread(u64);

impl Thread {
    /// The calling one.
    #[inline]
    pub(crate) fn current() -> Self {
        thread_local! {
            // A plain word: still there when the thread's other variables are
            // being destroyed.
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        static LAST: AtomicU64 = AtomicU64::new(0);
        NUMBER.with(|number| {
            if number.get() == 0 {
                // Relaxed: only unique.
                number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Thread(number.get())
        })
    }
}

thread_local! {
    /// Addresses of the shadows whose functions this thread is inside of. More
    /// than one: a function that runs in its main thread may join on another.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Runs `function` as one that was forked on the shadow at `address`.
#[inline]
pub(crate) fn inside(address: usize, function: impl FnOnce()) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
        }
    }
    // A thread that has destroyed its variables has ended all its functions
    // but this one, which then goes unnoticed.
    let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(address));
    let _leave = Leave;
    function();
}

/// True if the caller is inside of a function of the shadow at `address`.
#[inline]
pub(crate) fn is_inside(address: usize) -> bool {
    INSIDE.try_with(|inside| inside.borrow().contains(&address)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_differ() {
        let here = Thread::current();
        assert_eq!(here, Thread::current());
        let others: Vec<_> = (0..3).map(|_| std::thread::spawn(Thread::current)).collect();
        let mut seen = vec![here];
        for other in others {
            let other = other.join().unwrap();
            assert!(!seen.contains(&other));
            seen.push(other);
        }
    }

    #[test]
    fn insides_nest_and_a_panic_leaves_them() {
        inside(1, || {
            inside(2, || assert!(is_inside(1) && is_inside(2)));
            assert!(is_inside(1) && !is_inside(2));
            let panic = std::panic::catch_unwind(|| inside(3, || panic!("leaves")));
            assert!(panic.is_err() && !is_inside(3) && is_inside(1));
        });
        assert!(!is_inside(1));
    }
}
