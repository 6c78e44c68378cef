//! The plain way: one call after the other.

use kumiki_parasc::Request;
use kumiki_sys::syscall;

use super::Execute;

/// A loop, with the processor's instruction where the call is made.
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

/// A loop as almost every program has it: each call by a function of the C library, as
/// Rust's standard library makes its own. Where a kernel returns by Safe RET that takes half
/// as long again, as the return after it is mispredicted.
pub(crate) struct LibcLoop;

impl Execute for LibcLoop {
    #[inline(always)]
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        for (request, result) in requests.iter().zip(results) {
            let [a, b, c, d, e, f] = request.args;
            // SAFETY: the caller's promise.
            let answer = unsafe { libc::syscall(request.sysnum.into(), a, b, c, d, e, f) };
            *result = match answer {
                -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
                answer => answer,
            };
        }
    }
}
