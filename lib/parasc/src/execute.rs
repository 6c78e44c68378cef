//! Making calls.

pub(crate) use kumiki_calls::{Rules, call};

use kumiki_calls::Request;

/// Makes the calls, one after the other.
///
/// A function of its own, so that all of the loop is in registers: a call that empties
/// the TLB, as munmap does, makes each page that is used between two calls be looked up
/// anew, and where the stack was one of them a mapping took a tenth longer in a guest.
///
/// # Safety
/// As for [`Requester::run_raw`](crate::Requester::run_raw).
#[inline(never)]
pub(crate) unsafe fn plain(requests: &[Request], results: &mut [i64]) {
    for (request, result) in requests.iter().zip(results) {
        // SAFETY: the caller vouches for the call.
        *result = unsafe { call(request) };
    }
}
