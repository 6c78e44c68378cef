//! Letting other tasks run, where everything is ready at once.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// Calls that were ready at once before a task yields: at half a microsecond each some 60 µs,
/// as tokio's own budget of 128 operations.
const CALLS: u32 = 128;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(CALLS) };
}

/// Counts a call that was made at once; the task yields if others have waited for many. By the
/// thread, not by the task: those that run on one thread share its calls.
#[inline]
pub(crate) async fn take() {
    let left = LEFT.get();
    if left > 0 {
        LEFT.set(left - 1);
        return;
    }
    LEFT.set(CALLS);
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
