//! Brings a thread back from a call that would block for ever.
//!
//! Not every way to wait has a time-out (a pipe, an eventfd), and those that
//! have one pay for arming it, which would be in the figure. So a timer
//! interrupts the measuring thread instead, some times a second: the call
//! returns `EINTR`, and the caller looks whether the other end still lives.
//!
//! The signal is `SIGURG`: by default it is ignored, so that one that comes
//! after the handler is gone does no harm.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::rc::{Rc, Weak};
use std::sync::{Mutex, PoisonError};

use kumiki_measure::error::{Error, Result};

/// Time between two interruptions, nanoseconds.
const INTERVAL_NS: libc::c_long = 200_000_000;

/// Watchdog: while it lives, blocking calls of the thread that made it end in `EINTR` after 0.2 s
/// at the latest.
pub(crate) struct Watchdog {
    timer: libc::timer_t,
    _handler: Handler,
    // The timer aims at one thread, and a signal that waits to be delivered
    // when the timer is deleted is taken by that thread in that very call.
    of_this_thread: PhantomData<*const ()>,
}

thread_local! {
    static OF_THIS_THREAD: RefCell<Weak<Watchdog>> = const { RefCell::new(Weak::new()) };
}

impl Watchdog {
    /// This thread's watchdog: one, however many ask.
    pub(crate) fn of_this_thread() -> Result<Rc<Self>> {
        OF_THIS_THREAD.with_borrow_mut(|shared| {
            if let Some(there) = shared.upgrade() {
                return Ok(there);
            }
            let new = Rc::new(Self::start()?);
            *shared = Rc::downgrade(&new);
            Ok(new)
        })
    }

    fn start() -> Result<Self> {
        let handler = Handler::install()?;
        // SAFETY: all-zero bytes are a valid `sigevent`, integers and null pointers.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGURG;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer = ptr::null_mut();
        // SAFETY: `event` is initialised, `timer` writable.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) } < 0 {
            return Err(Error::last_os("create a timer to watch the other end"));
        }
        let watchdog = Watchdog { timer, _handler: handler, of_this_thread: PhantomData };
        let every = libc::timespec { tv_sec: 0, tv_nsec: INTERVAL_NS };
        let spec = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: the timer was just created; the kernel reads `spec` and, the
        // last argument being null, writes nothing.
        if unsafe { libc::timer_settime(watchdog.timer, 0, &spec, ptr::null_mut()) } < 0 {
            return Err(Error::last_os("start the timer to watch the other end"));
        }
        Ok(watchdog)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // SAFETY: created in `start`, deleted only here.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// The process's handler for `SIGURG`, which does nothing: there as long as one
/// watchdog of any thread is.
struct Handler;

struct Installed {
    watchdogs: usize,
    former: MaybeUninit<libc::sigaction>,
}

static INSTALLED: Mutex<Installed> =
    Mutex::new(Installed { watchdogs: 0, former: MaybeUninit::uninit() });

extern "C" fn nothing(_signal: libc::c_int) {}

impl Handler {
    fn install() -> Result<Self> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if installed.watchdogs == 0 {
            // SAFETY: all-zero bytes are a valid `sigaction`: no flags (so no
            // SA_RESTART), an empty mask.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = nothing as *const () as usize;
            let former = installed.former.as_mut_ptr();
            // SAFETY: `action` holds a handler that only returns; `former` is writable.
            if unsafe { libc::sigaction(libc::SIGURG, &action, former) } < 0 {
                return Err(Error::os("install a handler for SIGURG", io::Error::last_os_error()));
            }
        }
        installed.watchdogs += 1;
        Ok(Handler)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        installed.watchdogs -= 1;
        if installed.watchdogs == 0 {
            // SAFETY: `former` was written when the first handler was installed.
            unsafe { libc::sigaction(libc::SIGURG, installed.former.as_ptr(), ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocking_call_comes_back() {
        let watchdog = Watchdog::of_this_thread().unwrap();
        let again = Watchdog::of_this_thread().unwrap();
        assert!(Rc::ptr_eq(&watchdog, &again));
        let (empty, _writer) = rustix::pipe::pipe().unwrap();
        for _ in 0..2 {
            let outcome = rustix::io::read(&empty, &mut [0; 1]);
            assert_eq!(outcome, Err(rustix::io::Errno::INTR));
        }
    }
}
