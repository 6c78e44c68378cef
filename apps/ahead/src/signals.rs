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

/// `sigaction` as the kernel has it, beside its mask of one word.
#[repr(C)]
struct Action {
    handler: usize,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

/// Signals there are.
const SIGNALS: i32 = 64;
/// Bytes of a set of them.
const SET_BYTES: usize = 8;

/// True if no handler of the program's can be under way in this thread: none of the signals that it handles is blocked, as
/// each is while its handler runs, but where it was set not to be (SA_NODEFER). By number, as the C library hides two of them.
pub(crate) fn are_without_handler() -> bool {
    let (mut caught, mut blocked) = (0_u64, 0_u64);
    for signal in 1..=SIGNALS {
        let mut action = MaybeUninit::<Action>::uninit();
        let none = ptr::null::<Action>();
        // SAFETY: asks for an action, which changes nothing, and there is room for it.
        let answer = unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, none, action.as_mut_ptr(), SET_BYTES)
        };
        if answer != 0 {
            return false;
        }
        // SAFETY: the kernel has written it.
        let action = unsafe { action.assume_init() };
        if action.handler == libc::SIG_DFL || action.handler == libc::SIG_IGN {
            continue;
        }
        if action.flags & libc::SA_NODEFER as libc::c_ulong != 0 {
            return false;
        }
        caught |= 1 << (signal - 1);
    }
    let none = ptr::null::<u64>();
    // SAFETY: asks which signals are blocked, which changes nothing, and there is room for the set.
    let answer = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, none, &raw mut blocked, SET_BYTES)
    };
    answer == 0 && caught & blocked == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_within_a_handler_is_known_by_the_signal_that_it_has_blocked() {
        use std::sync::atomic::{AtomicU8, Ordering};
        static SEEN: AtomicU8 = AtomicU8::new(0);
        extern "C" fn handler(_: libc::c_int) {
            SEEN.store(1 + u8::from(are_without_handler()), Ordering::Relaxed);
        }
        let raise = |flags| {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: all zeros are an action.
            let action = unsafe { action.assume_init_mut() };
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = flags;
            // SAFETY: a handler that stores a number and asks the kernel.
            assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, action, ptr::null_mut()) }, 0);
            // SAFETY: this thread has a handler for it.
            unsafe { libc::raise(libc::SIGUSR1) };
            SEEN.swap(0, Ordering::Relaxed)
        };
        assert_eq!(raise(0), 1);
        assert!(are_without_handler());
        // Nothing tells whether such a one is under way.
        assert_eq!(raise(libc::SA_NODEFER), 1);
        assert!(!are_without_handler());
    }
}
