//! Operations: system calls with typed arguments and results.

use crate::request::Request;

/// A system call with what it needs: descriptors, buffers, names.
///
/// # Safety
/// From [`request`](Self::request) until [`complete`](Self::complete) every
/// pointer in the request must stay valid for what the kernel reads and writes
/// through it, as long as the operation is neither moved, nor dropped, nor
/// otherwise touched; the memory it writes to must belong to the operation (or
/// be borrowed mutably by it). The call must do no harm that safe code could
/// not do, on whichever thread it runs.
pub unsafe trait Operation {
    /// What the call gives.
    type Output;

    /// The call to make. Pointers may point into `self`.
    fn request(&mut self) -> Request;

    /// Turns what the kernel returned (a result or `-errno`) into the output.
    /// Called at most once after each [`request`](Self::request).
    fn complete(&mut self, ret_val: i64) -> Self::Output;
}
