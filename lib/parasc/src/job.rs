//! A job: a call, or several, each of which is made of what the one before has given.

use crate::op::Operation;
use kumiki_calls::Request;

/// Calls that one thread makes one after the other, as one request: every [`Operation`] is one
/// of a single call, [`tries::OpenRead`](crate::tries::OpenRead) opens a file, asks for its
/// attributes and reads it.
///
/// ```text
///   request() ──► the kernel ──► goes_on(ret_val) ──► true: request() …
///                                                └──► false: complete(ret_val)
/// ```
///
/// # Safety
/// As for [`Operation`], for each of its requests: every pointer in it must stay valid, and
/// what the kernel writes to belong to the job, until the result is handed to
/// [`goes_on`](Self::goes_on) or [`complete`](Self::complete), as long as the job is neither
/// moved nor dropped.
pub unsafe trait Job {
    /// The result of all its calls.
    type Output;

    /// The call that is due. Asked again without a call in between it is the same one.
    fn request(&mut self) -> Request;

    /// Takes the result of a call and says whether another one is due. It runs on the thread
    /// that has made the call; if it panics the job is over.
    ///
    /// # Safety
    /// The kernel returned `ret_val` for the last [`request`](Self::request), and the job has
    /// not moved since.
    unsafe fn goes_on(&mut self, ret_val: i64) -> bool;

    /// The output, when the job is over. `ret_val` is that of the last call which was due: its
    /// result, that was given to [`goes_on`](Self::goes_on) before, or in place of a result
    /// `-EOWNERDEAD` or `-EPERM` if the call was not made.
    ///
    /// # Safety
    /// As for [`goes_on`](Self::goes_on), which has said that nothing is due, or has not been
    /// asked about this value. Once.
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output;
}

// SAFETY: an operation vouches for its one call.
unsafe impl<O: Operation> Job for O {
    type Output = O::Output;

    #[inline(always)]
    fn request(&mut self) -> Request {
        Operation::request(self)
    }

    #[inline(always)]
    unsafe fn goes_on(&mut self, _: i64) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn complete(&mut self, ret_val: i64) -> O::Output {
        // SAFETY: the caller's promise.
        unsafe { Operation::complete(self, ret_val) }
    }
}
