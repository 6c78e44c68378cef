//! Signals of the program, which no thread of ours takes, and the end of a thread by `pthread_cancel`, which waits until
//! what is half done here is done.

use std::mem::MaybeUninit;
use std::ptr;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// The value of pthread.h.
const CANCEL_DISABLE: libc::c_int = 1;

/// Does something whose end others wait for, and which a thread must not be cancelled in.
pub(crate) fn to_its_end<T>(body: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: room for the state before.
    let is_changed = unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) } == 0;
    let outcome = body();
    if is_changed {
        // SAFETY: the state that it was in.
        unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    }
    outcome
}

/// Does something while this thread takes no signal; a thread that it makes never takes one.
pub(crate) fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: room for a set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: a full set, and room for the one before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let outcome = body();
    // SAFETY: the set that was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    outcome
}
