//! Processing threads that belong to the program: it has called
//! [`Engine::process`](crate::Engine::process), and may end them at any moment.
//!
//! Such a thread holds a robust mutex as long as it serves: the kernel marks it
//! when the thread dies, however it dies (pthread_mutexattr_setrobust(3)). What
//! it was at stands in its [`Claim`]. Whoever waits for something overdue looks
//! for dead ones:
//!
//! | the slot named by a dead thread's note | and then |
//! |---|---|
//! | `REQUEST`: it had not begun | left to the next thread that looks |
//! | `PROCESSING`, named by no living thread | answered `-EOWNERDEAD`: perhaps executed, not executed again |
//! | `PROCESSING`, also named by a living thread | looked at again later |
//! | anything else | nothing: that request is over |

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::{Arc, Mutex};

use kumiki_wait::Bell;

use super::lock;
use crate::claim::Claim;
use crate::core::Core;
use crate::primitive::AtomicUsize;

/// What outlives a processing thread of the program.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) claim: Claim,
    pub(crate) bell: Bell,
    life: Life,
    dead: AtomicBool,
}

/// A robust mutex, held by a thread as long as it serves.
struct Life(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is made to be used by several threads.
unsafe impl Send for Life {}
// SAFETY: as above.
unsafe impl Sync for Life {}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Life")
    }
}

impl Life {
    /// Initialises it where it stays.
    ///
    /// # Safety
    /// `life` is neither moved nor in use.
    unsafe fn init(life: &Life) {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: initialises what it is given; fails only without memory,
        // which the C library does not need for it.
        unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) };
        // SAFETY: initialised above.
        unsafe {
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST)
        };
        // SAFETY: the caller vouches for the mutex.
        unsafe { libc::pthread_mutex_init(life.0.get(), attributes.as_ptr()) };
        // SAFETY: initialised above.
        unsafe { libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()) };
    }

    fn begin(&self) {
        // SAFETY: an initialised mutex that nobody else locks for longer than a
        // look; this thread does not have it.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// By the thread that has begun it.
    fn end(&self) {
        // SAFETY: locked by this thread, in `begin`.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Whether the thread has died in it. `true` for one caller only.
    fn has_died(&self) -> bool {
        // SAFETY: an initialised mutex.
        match unsafe { libc::pthread_mutex_trylock(self.0.get()) } {
            0 => {
                self.end();
                false
            }
            libc::EOWNERDEAD => {
                // SAFETY: locked by this thread just now, its owner dead.
                unsafe { libc::pthread_mutex_consistent(self.0.get()) };
                self.end();
                true
            }
            _ => false,
        }
    }
}

impl Caller {
    fn new() -> Arc<Self> {
        let mutex = UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let caller = Arc::new(Caller {
            claim: Claim::default(),
            bell: Bell::new(),
            life: Life(mutex),
            dead: AtomicBool::new(false),
        });
        // SAFETY: in its `Arc`, where it stays, and not in use yet.
        unsafe { Life::init(&caller.life) };
        caller
    }

    /// Whether the thread has died.
    pub(crate) fn is_dead(&self) -> bool {
        if self.life.has_died() {
            self.dead.store(true, Release);
        }
        self.dead.load(Acquire)
    }
}

/// The program's processing threads in one engine.
#[derive(Debug)]
pub(crate) struct Callers {
    list: Mutex<Vec<Arc<Caller>>>,
    count: AtomicUsize,
}

impl Callers {
    pub(crate) fn new() -> Self {
        Callers { list: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Whether there is one, perhaps dead.
    pub(crate) fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    /// Makes the calling thread one, until [`leave`](Self::leave).
    pub(crate) fn enter(&self) -> Arc<Caller> {
        let caller = Caller::new();
        caller.life.begin();
        let mut list = lock(&self.list);
        list.push(Arc::clone(&caller));
        self.count.store(list.len(), SeqCst);
        caller
    }

    /// By the thread that has entered.
    pub(crate) fn leave(&self, caller: &Arc<Caller>) {
        caller.life.end();
        self.forget(caller);
    }

    /// Takes one off the list, which has left or of which nothing is left to do.
    pub(crate) fn forget(&self, caller: &Arc<Caller>) {
        let mut list = lock(&self.list);
        list.retain(|other| !Arc::ptr_eq(other, caller));
        self.count.store(list.len(), SeqCst);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Caller>> {
        if self.any() { lock(&self.list).clone() } else { Vec::new() }
    }

    /// Wakes all that sleep.
    pub(crate) fn ring_all(&self) {
        self.all().iter().for_each(|caller| caller.bell.ring());
    }

    /// Sees to it that one that is at no request looks for some. `false` if
    /// there is none.
    pub(crate) fn call(&self) -> bool {
        if !self.any() {
            return false;
        }
        let list = lock(&self.list);
        let idle = list.iter().find(|caller| !caller.claim.is_set() && !caller.is_dead());
        idle.map(|caller| caller.bell.ring()).is_some()
    }

    /// Sums up the requests that have been taken.
    pub(crate) fn quick(&self) -> u32 {
        self.all().iter().map(|caller| caller.claim.quick()).fold(0, u32::wrapping_add)
    }
}

/// Held by a thread while it serves, so that it leaves on every way out.
#[derive(Debug)]
pub(crate) struct Serving<'a> {
    pub(crate) caller: Arc<Caller>,
    core: &'a Arc<Core>,
}

impl<'a> Serving<'a> {
    pub(crate) fn enter(core: &'a Arc<Core>) -> Self {
        core.note_filter();
        let caller = super::unkillable(true, || core.callers.enter());
        Serving { caller, core }
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        super::unkillable(true, || {
            self.core.callers.leave(&self.caller);
            // It may have been called for some after its last look.
            super::serve_what_waits(self.core);
        });
    }
}
