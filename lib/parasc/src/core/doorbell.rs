//! Where a processing thread sleeps, and whether it has been called and does not look yet.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_wait::Bell;

use crate::primitive::AtomicU32;

/// One processing thread's.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    bell: Bell,
    /// Not 0: called, and has not looked since. From the call until the thread
    /// runs it takes a while, and a batch offered to it until then would be the
    /// caller's alone, and counted as a bad one.
    called: AtomicU32,
}

impl Deref for Doorbell {
    type Target = Bell;

    fn deref(&self) -> &Bell {
        &self.bell
    }
}

impl Doorbell {
    /// True if the thread is awake, and sees a request soon.
    #[inline]
    pub(crate) fn looks_soon(&self) -> bool {
        self.called.load(Relaxed) == 0 && !self.bell.is_asleep()
    }

    /// Says that the thread looks: by the thread itself. `true` if it has been
    /// called since it last did.
    #[inline(always)]
    pub(crate) fn looks(&self) -> bool {
        // A hint: it orders nothing.
        let called = self.called.load(Relaxed) != 0;
        if called {
            self.called.store(0, Relaxed);
        }
        called
    }

    /// Says that the thread has been called, and does not look yet.
    pub(crate) fn note_call(&self) {
        self.called.store(1, Relaxed);
    }

    /// Wakes the thread, if it sleeps.
    pub(crate) fn call(&self) {
        if self.bell.is_asleep() {
            self.note_call();
        }
        self.bell.ring();
    }
}
