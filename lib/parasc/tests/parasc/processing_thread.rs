//! Threads of the program in `Engine::process`, as a C program starts them, and ends
//! them at any moment.

#![allow(dead_code, reason = "who includes this file may need part of it")]

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use kumiki_parasc::Engine;

/// One such thread. It lives no longer than its engine: who starts it waits for its
/// end.
pub(crate) struct Thread(libc::pthread_t);

extern "C-unwind" fn process(engine: *mut c_void) -> *mut c_void {
    // SAFETY: `start` has been given an engine that outlives the thread.
    unsafe { &*engine.cast::<Engine>() }.process();
    ptr::null_mut()
}

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> libc::c_int;
    fn pthread_tryjoin_np(thread: libc::pthread_t, ended: *mut *mut c_void) -> libc::c_int;
}

/// A thread that processes requests of `engine`.
pub(crate) fn start(engine: &Engine) -> Thread {
    let mut thread = 0;
    // SAFETY: the engine is not moved, and lives until the thread has ended.
    let error = unsafe {
        pthread_create(&raw mut thread, ptr::null(), process, ptr::from_ref(engine) as _)
    };
    assert_eq!(error, 0);
    Thread(thread)
}

/// Ends the thread it comes to, wherever that is: not the process, and without
/// the C library.
extern "C" fn die(_: libc::c_int) {
    // SAFETY: ends this thread, which holds nothing that others need.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

impl Thread {
    pub(crate) fn kill(self) {
        let handler = die as extern "C" fn(libc::c_int);
        // SAFETY: a handler that may come at any moment.
        unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
        self.signal(libc::SIGUSR1);
        // The kernel tells of its end, as of any other.
        self.join();
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: a thread that has not been joined.
        unsafe { libc::pthread_kill(self.0, signal) };
    }

    pub(crate) fn cancel(&self) {
        // SAFETY: a thread that has not been joined.
        unsafe { libc::pthread_cancel(self.0) };
    }

    pub(crate) fn join(self) {
        // SAFETY: joined once.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }

    /// Joins it, and gives what it returned; `None`: it goes on after so long.
    pub(crate) fn join_within(self, limit: Duration) -> Option<usize> {
        let (mut ended, begin) = (ptr::null_mut(), Instant::now());
        // SAFETY: it is joined once: what has not ended is asked again.
        while unsafe { pthread_tryjoin_np(self.0, &raw mut ended) } != 0 {
            if begin.elapsed() > limit {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(ended.addr())
    }
}
