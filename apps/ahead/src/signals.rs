//! Signals of the program, which no thread of ours takes.

use std::mem::MaybeUninit;
use std::ptr;

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
