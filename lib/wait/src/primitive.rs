//! What the protocol is built from. Under `cfg(loom)` these are loom's doubles, so the
//! model checker runs the same protocol; under `cfg(sim)` those of a machine of lines.

pub(crate) use imp::{
    AtomicBool, AtomicUsize, Descriptor, Word, fence, look_again, now, spin_loop,
};

/// Processes whose threads may sleep on a [`Word`].
pub(crate) use kumiki_sys::futex::Scope;

#[cfg(not(loom))]
mod imp {
    use std::ops::Deref;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    #[cfg(not(sim))]
    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    #[cfg(sim)]
    use kumiki_sys::sim::{self, atomic::AtomicU32};

    use kumiki_sys::futex::{self, Deadline, Outcome, Scope};
    use kumiki_sys::pause::pause;
    use rustix::event::{EventfdFlags, eventfd};

    #[cfg(sim)]
    pub(crate) use kumiki_sys::sim::{
        atomic::{AtomicBool, AtomicUsize},
        fence, now, spin_loop,
    };
    #[cfg(not(sim))]
    pub(crate) use std::{
        hint::spin_loop,
        sync::atomic::{AtomicBool, AtomicUsize, fence},
    };

    #[cfg(not(sim))]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// Comes after a look that has found nothing and is followed by the next one at once.
    #[inline(always)]
    pub(crate) fn look_again() {
        #[cfg(sim)]
        spin_loop();
    }

    /// A counter whose descriptor is readable while it is not 0: an eventfd(2).
    #[derive(Debug)]
    pub(crate) struct Descriptor(OwnedFd);

    impl Descriptor {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Descriptor(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
        }

        pub(crate) fn add_one(&self) {
            // It fails where 2^64 - 1 have been added since it was reset: readable it is.
            let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
        }

        pub(crate) fn reset(&self) {
            // It fails where it is 0 already.
            let _ = rustix::io::read(&self.0, &mut [0; 8]);
        }
    }

    impl AsFd for Descriptor {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    /// A word that a thread can sleep on.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct Word(AtomicU32);

    impl Deref for Word {
        type Target = AtomicU32;

        #[inline(always)]
        fn deref(&self) -> &AtomicU32 {
            &self.0
        }
    }

    impl Word {
        pub(crate) const fn new(value: u32) -> Self {
            Word(AtomicU32::new(value))
        }

        /// Sleeps while the word is `expected`; returns whether `until` has passed. May
        /// wake spuriously.
        pub(crate) fn wait(&self, expected: u32, scope: Scope, until: Option<Instant>) -> bool {
            #[cfg(sim)]
            if let Some(machine) = sim::machine() {
                let changed = || self.0.load(std::sync::atomic::Ordering::Relaxed) != expected;
                let until = until.map(sim::since_epoch_ns);
                return machine.sleep(self.0.as_ptr().addr(), &changed, until);
            }
            let span = until.map(|until| until.saturating_duration_since(Instant::now()));
            // Later than `until` by the time since the line above, never earlier.
            match futex::wait(self.real(), expected, scope, span.map(Deadline::after)) {
                Ok(outcome) => outcome == Outcome::TimedOut,
                Err(_) => {
                    // A filter refuses the call: polling by the millisecond is
                    // poor, spinning at full speed or giving up would be worse.
                    pause(Duration::from_millis(1));
                    until.is_some_and(|until| Instant::now() >= until)
                }
            }
        }

        /// Wakes up to that many sleepers.
        pub(crate) fn wake(&self, count: u32, scope: Scope) {
            // The only errors are a kernel without futex, where nobody has fallen
            // asleep, and a filter that forbids it. A filter is a thread's own:
            // who is not under it may have fallen asleep, and sleeps on until its
            // deadline or another's wake. There is nothing else to be tried here.
            #[cfg(sim)]
            if let Some(machine) = sim::machine() {
                machine.wake(self.0.as_ptr().addr(), count);
                return;
            }
            let _ = futex::wake(self.real(), count, scope);
        }

        /// The word that the kernel is told of.
        fn real(&self) -> &std::sync::atomic::AtomicU32 {
            #[cfg(sim)]
            return self.0.real();
            #[cfg(not(sim))]
            &self.0
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::ops::Deref;
    use std::time::Instant;

    use kumiki_sys::futex::Scope;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};

    /// An eventfd as eventfd(2) promises it. The kernel does each call under a lock of the counter's.
    #[derive(Debug)]
    pub(crate) struct Descriptor {
        is_readable: Mutex<bool>,
        poller: Condvar,
    }

    impl Descriptor {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Descriptor { is_readable: Mutex::new(false), poller: Condvar::new() })
        }

        pub(crate) fn add_one(&self) {
            *self.is_readable.lock().unwrap() = true;
            self.poller.notify_one();
        }

        pub(crate) fn reset(&self) {
            *self.is_readable.lock().unwrap() = false;
        }

        /// Sleeps while it is not readable.
        pub(crate) fn poll(&self) {
            let mut is_readable = self.is_readable.lock().unwrap();
            while !*is_readable {
                is_readable = self.poller.wait(is_readable).unwrap();
            }
        }
    }

    /// Does nothing: for loom no time passes.
    pub(crate) fn spin_loop() {}

    /// Does nothing, as [`spin_loop`].
    pub(crate) fn look_again() {}

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// More threads than a model has.
    const MOST: u32 = 4;

    /// A futex as futex(2) promises it: comparing and falling asleep is one
    /// step for everybody who wakes.
    #[derive(Debug)]
    pub(crate) struct Word {
        value: AtomicU32,
        queue: Mutex<()>,
        bell: Condvar,
    }

    impl Deref for Word {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.value
        }
    }

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            Word { value: AtomicU32::new(value), queue: Mutex::new(()), bell: Condvar::new() }
        }

        /// The timer goes off at once: whatever others do before a later one,
        /// they also do before the sleeper gets here in another execution.
        pub(crate) fn wait(&self, expected: u32, _: Scope, until: Option<Instant>) -> bool {
            let queue = self.queue.lock().unwrap();
            if self.value.load(Ordering::Relaxed) != expected {
                return false;
            }
            if until.is_some() {
                return true;
            }
            drop(self.bell.wait(queue).unwrap());
            false
        }

        pub(crate) fn wake(&self, count: u32, _: Scope) {
            let _queue = self.queue.lock().unwrap();
            (0..count.min(MOST)).for_each(|_| self.bell.notify_one());
        }
    }
}
