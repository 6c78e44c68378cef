//! Signals of a thread that serves: the program's own threads handle them.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Signals that a thread raises itself, by what it executes. While they are blocked the
/// kernel ends the process without calling the handler (force_sig_info_to_task,
/// kernel/signal.c): no message about a stack overflow, no page faults for a garbage
/// collector. `SIGSYS` is a seccomp filter's answer to a call; its handler may emulate
/// the call.
const OWN: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// The signals of the thread that makes it, blocked until it is dropped there: all but
/// those that the thread raises itself.
#[derive(Debug)]
pub struct Blocked {
    all: libc::sigset_t,
    former: libc::sigset_t,
    /// Keeps the value in its thread.
    _thread: PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks them.
    #[allow(clippy::new_without_default, reason = "it changes the thread")]
    pub fn new() -> Self {
        let mut all = MaybeUninit::uninit();
        // SAFETY: fills the set it is given.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: filled above.
        let mut all = unsafe { all.assume_init() };
        for signal in OWN {
            // SAFETY: a set, and a signal's number.
            unsafe { libc::sigdelset(&raw mut all, signal) };
        }
        Blocked { all, former: set(&all), _thread: PhantomData }
    }

    /// Runs `work` with the mask that there was before.
    #[inline]
    pub fn lifted<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Also if `work` unwinds.
        struct Again<'a>(&'a Blocked);
        impl Drop for Again<'_> {
            fn drop(&mut self) {
                set(&self.0.all);
            }
        }
        set(&self.former);
        let _again = Again(self);
        work()
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set(&self.former);
    }
}

/// Sets the calling thread's mask, and returns the former one.
fn set(mask: &libc::sigset_t) -> libc::sigset_t {
    let mut former = MaybeUninit::uninit();
    // SAFETY: both are valid; the former mask is written to the second. It fails only for
    // a wrong first argument.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, former.as_mut_ptr()) };
    // SAFETY: written above.
    unsafe { former.assume_init() }
}

/// Runs `spawn` with all signals blocked in this thread except those that it raises
/// itself; a new thread inherits its starter's mask.
pub fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    spawn()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use std::ptr;

    use super::*;

    fn blocked() -> Vec<libc::c_int> {
        let mut now = MaybeUninit::uninit();
        // SAFETY: only writes the present mask to `now`.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr()) };
        // SAFETY: written above.
        let is_blocked =
            |signal: &libc::c_int| unsafe { libc::sigismember(now.as_ptr(), *signal) } == 1;
        (1..32).filter(is_blocked).collect()
    }

    #[test]
    fn a_new_thread_leaves_signals_to_the_others_and_the_starter_keeps_its_own() {
        let before = blocked();
        let thread = with_signals_blocked(|| std::thread::spawn(blocked));
        let theirs = thread.join().unwrap();
        assert!(
            [libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGCHLD]
                .iter()
                .all(|s| theirs.contains(s))
        );
        assert!(OWN.iter().all(|signal| !theirs.contains(signal)), "{theirs:?}");
        assert_eq!(blocked(), before);
        let panicked =
            catch_unwind(AssertUnwindSafe(|| with_signals_blocked(|| panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(blocked(), before);
    }
}
