//! Where the supervising thread sleeps, and how it is alerted.

use std::sync::atomic::Ordering::{AcqRel, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

use kumiki_wait::Bell;

use super::ThreadInfo;
use crate::primitive::{Mutex, fence, lock};

/// The supervising thread, as others see it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) bell: Bell,
    /// Not 0: there is something to watch.
    alerted: AtomicU32,
    running: Mutex<bool>,
    /// True if it has adopted the waiting requests and makes their calls itself.
    adopted: AtomicBool,
    pub(crate) thread: ThreadInfo,
}

impl Watch {
    /// True if the thread takes care of all that was stored before.
    #[inline]
    pub(crate) fn is_alerted(&self) -> bool {
        // Partner: the fence in `calm`.
        fence(SeqCst);
        self.alerted.load(SeqCst) != 0
    }

    /// Says that there is something to watch, and `start`s the thread if there is
    /// none: `false` if none is to be had.
    #[cold]
    pub(crate) fn begin(&self, start: impl FnOnce() -> bool) -> bool {
        let mut running = lock(&self.running);
        if *running {
            if self.alerted.swap(1, AcqRel) == 0 {
                self.bell.ring();
            }
            return true;
        }
        *running = start();
        // Not before: an alert counts only once there is a thread that sees it.
        self.alerted.store((*running).into(), SeqCst);
        *running
    }

    /// The thread waits until its starter, who is alerting it, is ready.
    pub(crate) fn await_start(&self) {
        drop(lock(&self.running));
    }

    /// The thread goes, unless something `holds` it after all. Whoever alerts it from
    /// then on starts another one.
    pub(crate) fn leave(&self, holds: impl FnOnce() -> bool) -> bool {
        let mut running = lock(&self.running);
        *running = holds();
        !*running
    }

    /// The thread has found nothing to watch, and looks once more after this.
    pub(crate) fn calm(&self) {
        self.alerted.store(0, SeqCst);
        // Partner: the fence in `is_alerted`.
        fence(SeqCst);
    }

    /// Notes that it has found something after all.
    pub(crate) fn note_alert(&self) {
        self.alerted.store(1, SeqCst);
    }

    /// Word that changes when it is alerted.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.alerted
    }

    /// Its thread has died: another one may be started.
    pub(crate) fn clear(&self) {
        drop(self.thread.claim.take());
        let mut running = lock(&self.running);
        self.alerted.store(0, SeqCst);
        *running = false;
    }

    /// Says that its thread is to make the calls of waiting requests.
    pub(crate) fn adopt(&self) {
        self.adopted.store(true, Release);
    }

    /// True, once, if it is to.
    pub(crate) fn take_adopted(&self) -> bool {
        self.adopted.swap(false, AcqRel)
    }
}
