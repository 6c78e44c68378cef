//! Signals of a thread that serves: the program's own threads handle them.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use crate::syscall::raw;

/// Signals that a thread raises itself, by what it executes. While they are blocked the
/// kernel ends the process without calling the handler (force_sig_info_to_task,
/// kernel/signal.c): no message about a stack overflow, no page faults for a garbage
/// collector. `SIGSYS` is a seccomp filter's answer to a call; its handler may emulate
/// the call.
const OWN: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Signals as the kernel has them: bit by number less one.
type Mask = u64;

/// The signals of the thread that makes it, blocked until it is dropped there: all but
/// those that the thread raises itself, and the C library's own.
#[derive(Debug)]
pub struct Blocked {
    all: Mask,
    former: Mask,
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
        let former = now();
        // By the C library, which knows what it needs open.
        // SAFETY: a valid set. It fails only for a wrong first argument.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut()) };
        Blocked { all: now(), former, _thread: PhantomData }
    }

    /// Runs `work` with the mask that there was before.
    #[inline(always)]
    pub fn lifted<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Also if `work` unwinds.
        struct Again<'a>(&'a Blocked);
        impl Drop for Again<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                set(self.0.all);
            }
        }
        set(self.former);
        let _again = Again(self);
        work()
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set(self.former);
    }
}

/// Sets the calling thread's mask, without the C library: after its function, which copies sets
/// and returns after the kernel has, ten statx took 0.5 µs longer where a kernel returns by Safe
/// RET.
#[inline(always)]
fn set(mask: Mask) {
    change(&raw const mask, ptr::null_mut());
}

/// The calling thread's mask.
fn now() -> Mask {
    let mut now = 0;
    change(ptr::null(), &raw mut now);
    now
}

#[inline(always)]
fn change(to: *const Mask, from: *mut Mask) {
    let (to, from, length) = (to.addr() as u64, from.addr() as u64, size_of::<Mask>() as u64);
    let number = libc::SYS_rt_sigprocmask as usize;
    // SAFETY: two masks of this length, or none.
    unsafe { raw(number, [libc::SIG_SETMASK as u64, to, from, length, 0, 0]) };
}

/// Runs `spawn` with all signals blocked in this thread except those that it raises
/// itself; a new thread inherits its starter's mask.
pub fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    spawn()
}

/// Gives SIGCHLD its default action. Where a parent has a program ignore it, as some supervisors and
/// `env --ignore-signal` do, the kernel collects children by itself: whoever waits for one is told
/// that there is none, and never its exit status. For the beginning of `main` of a program that
/// waits for children.
pub fn restore_child_signal() {
    // SAFETY: a signal's number and a default action.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

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

    /// 32 and 33 are the C library's: setuid and pthread_cancel would hang without.
    #[test]
    fn work_has_the_former_mask_and_the_c_librarys_signals_are_never_blocked() {
        let bit = |signal: libc::c_int| 1 << (signal - 1);
        let before = now();
        let all = Blocked::new();
        let during = now();
        assert_eq!(during & (bit(32) | bit(33) | bit(libc::SIGSYS)), 0, "{during:x}");
        let theirs = bit(libc::SIGTERM) | bit(libc::SIGUSR1) | bit(60);
        assert_eq!(during & theirs, theirs, "{during:x}");
        assert_eq!(all.lifted(now), before);
        assert_eq!(now(), during);
        let panicked = catch_unwind(AssertUnwindSafe(|| all.lifted(|| panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(now(), during);
        drop(all);
        assert_eq!(now(), before);
    }

    const CHILD: &str = "KUMIKI_TEST_CHILD";
    const CHILD_NAME: &str = "signals::tests::a_child_is_waited_for_where_its_signal_was_ignored";

    #[test]
    fn a_child_is_waited_for_where_its_signal_was_ignored() {
        if std::env::var_os(CHILD).is_some() {
            let child = || std::process::Command::new("sh").args(["-c", "exit 3"]).status();
            assert!(child().is_err(), "it was ignored, and nobody can wait");
            restore_child_signal();
            assert_eq!(child().unwrap().code(), Some(3));
            return;
        }
        let own = std::env::current_exe().unwrap();
        let mut ignoring = std::process::Command::new("env");
        ignoring.arg("--ignore-signal=CHLD").arg(own).args(["--exact", CHILD_NAME]);
        assert!(ignoring.env(CHILD, "1").output().unwrap().status.success());
    }
}
