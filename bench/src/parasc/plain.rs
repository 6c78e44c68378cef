//! The plain way: one call after the other.

use kumiki_parasc::Request;
use kumiki_sys::syscall;

use super::Execute;

/// A loop.
pub(crate) struct Loop;

impl Execute for Loop {
    #[inline(always)]
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        for (request, result) in requests.iter().zip(results) {
            // SAFETY: the caller's promise.
            *result = unsafe { syscall::raw(request.sysnum.into(), request.args) };
        }
    }
}
