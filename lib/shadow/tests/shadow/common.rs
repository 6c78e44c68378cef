//! A shadow, a job that waits, and a child of fork(2).

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, yield_now};
use std::time::Duration;

use kumiki_shadow::{Builder, Shadow};

/// A child that has not ended by then hangs.
const PATIENCE_S: libc::c_uint = 20;

/// A shadow with a helper, which shares cpus with the shadows of other tests.
pub(crate) fn shadow() -> Shadow {
    Builder::new().share().create().expect("one cpu is enough for a shared one")
}

/// One with a helper and one without.
pub(crate) fn shadows() -> [Shadow; 2] {
    [shadow(), Shadow::inline()]
}

/// Forks a job that takes a while; the gate is open once it has ended.
pub(crate) fn fork_slow(shadow: &mut Shadow) -> Arc<Gate> {
    let gate = Arc::new(Gate::default());
    let its = Arc::clone(&gate);
    let slow = move || {
        sleep(Duration::from_millis(10));
        its.open();
    };
    shadow.fork(slow).unwrap();
    gate
}

/// Whether `body` panics with this text.
pub(crate) fn panicked(with: &str, body: impl FnOnce()) -> bool {
    let panic = catch_unwind(AssertUnwindSafe(body)).err();
    panic.is_some_and(|panic| panic.downcast_ref::<&str>() == Some(&with))
}

/// A job that says that it has begun, and waits until it may end.
#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) begun: AtomicUsize,
    open: AtomicUsize,
}

impl Gate {
    pub(crate) fn pass(&self) {
        self.begun.store(1, Ordering::Release);
        while self.open.load(Ordering::Acquire) == 0 {
            yield_now();
        }
    }

    /// Once it has begun in the helper, nobody takes it back.
    pub(crate) fn wait_begun(&self) {
        while self.begun.load(Ordering::Acquire) == 0 {
            yield_now();
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) != 0
    }

    pub(crate) fn open(&self) {
        self.open.store(1, Ordering::Release);
    }
}

/// A child of fork(2), as its parent sees it.
pub(crate) struct Child(libc::pid_t);

/// Makes a child, which sees `None` and ends by [`exit`].
pub(crate) fn fork() -> Option<Child> {
    // SAFETY: what a test does in the child needs no lock and no memory of other
    // threads, but for what the C library prepares, and it ends by `exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: ends this process if it hangs.
        unsafe { libc::alarm(PATIENCE_S) };
        return None;
    }
    Some(Child(child))
}

/// Ends a child without running the parent's destructors.
pub(crate) fn exit(fine: bool) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(i32::from(!fine)) }
}

impl Child {
    /// Waits for it; all was fine in it.
    pub(crate) fn ended_well(self) {
        let mut status = -1;
        // SAFETY: waits for a child of this process; `status` is writable.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        assert_eq!(status, 0);
    }
}
