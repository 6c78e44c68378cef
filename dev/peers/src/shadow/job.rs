//! A closure that a peer without Rust's lifetimes can run.

use std::ffi::c_void;

/// A function and its argument, as C passes them around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// The function.
    pub(crate) run: unsafe extern "C" fn(*mut c_void),
    /// Its argument.
    pub(crate) data: *mut c_void,
}

// SAFETY: `lend` makes jobs only of closures that are Send and whose results are.
unsafe impl Send for Job {}
// SAFETY: as above, and whoever runs a job promises to do it once.
unsafe impl Sync for Job {}

impl Job {
    /// Runs it.
    ///
    /// # Safety
    /// Once, and before the `lend` that made it returns.
    pub(crate) unsafe fn run(self) {
        // SAFETY: the caller's promise is the function's precondition.
        unsafe { (self.run)(self.data) }
    }
}

struct Frame<F, R> {
    closure: Option<F>,
    result: Option<R>,
}

unsafe extern "C" fn run<F: FnOnce() -> R, R>(data: *mut c_void) {
    // SAFETY: `data` is the frame of a `lend` that has not returned, and the
    // job is run once, so nobody else has a reference to it.
    let frame = unsafe { &mut *data.cast::<Frame<F, R>>() };
    frame.result = frame.closure.take().map(|closure| closure());
}

/// Makes a job of `closure` on the stack and lends it to `hand`, which must
/// have it run, on whatever thread, and have seen its end before it returns.
/// Results of both.
///
/// # Panics
/// If `hand` did not have the job run.
#[inline]
pub(crate) fn lend<A, F: FnOnce() -> R + Send, R: Send>(
    closure: F,
    hand: impl FnOnce(Job) -> A,
) -> (A, R) {
    let mut frame = Frame { closure: Some(closure), result: None };
    let data: *mut Frame<F, R> = &raw mut frame;
    let a = hand(Job { run: run::<F, R>, data: data.cast() });
    // SAFETY: `data` is `frame`, and `hand` saw the job's end.
    let result = unsafe { (*data).result.take() };
    (a, result.expect("the peer runs what it was given"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_with_borrows_runs_on_another_thread() {
        let text = String::from("borrowed");
        let (here, there) = lend(
            || text.len(),
            |job| {
                // SAFETY: once, and the scope ends before `lend` does.
                std::thread::scope(|s| s.spawn(move || unsafe { { job }.run() }).join().unwrap());
                text.as_str()
            },
        );
        assert_eq!((here, there), ("borrowed", 8));
    }

    #[test]
    #[should_panic(expected = "runs what it was given")]
    fn a_job_that_was_not_run_is_noticed() {
        lend(|| 1, |_| ());
    }
}
