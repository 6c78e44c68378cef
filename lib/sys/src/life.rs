//! Whether a thread still lives.
//!
//! It holds a robust mutex as long as it serves: the kernel marks that when the thread
//! ends, however it ends (pthread_mutexattr_setrobust(3)).

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

/// A robust mutex, where it stays. One that is dropped while a thread holds it is never
/// freed: it is in that thread's list, which the kernel walks.
pub struct Life(ManuallyDrop<Box<UnsafeCell<libc::pthread_mutex_t>>>);

// SAFETY: a mutex is made to be used by several threads.
unsafe impl Send for Life {}
// SAFETY: as above.
unsafe impl Sync for Life {}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Life")
    }
}

impl Default for Life {
    fn default() -> Self {
        let mutex = UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let life = Life(ManuallyDrop::new(Box::new(mutex)));
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: initialises what it is given; fails only without memory,
        // which the C library does not need for it.
        unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) };
        // SAFETY: initialised above.
        unsafe {
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST)
        };
        // SAFETY: as above. A thread that locks it twice is told, and does not hang.
        unsafe {
            libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ERRORCHECK)
        };
        // SAFETY: nobody else has it yet, and it stays in its box.
        unsafe { libc::pthread_mutex_init(life.0.get(), attributes.as_ptr()) };
        // SAFETY: initialised above.
        unsafe { libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()) };
        life
    }
}

impl Life {
    /// The calling thread's from here on, until it [ends](Self::end) it or dies.
    ///
    /// # Panics
    /// If the calling thread has begun it already.
    pub fn begin(&self) {
        // Nobody else locks it for longer than a look, or than it takes to end.
        assert!(self.lock().is_some(), "a thread begins its life once");
    }

    /// The calling thread's from here on, unless another thread has begun it; whether one has
    /// died in it before, which nobody is told any more.
    pub fn try_begin(&self) -> Option<bool> {
        // SAFETY: an initialised mutex.
        self.locked(unsafe { libc::pthread_mutex_trylock(self.0.get()) })
    }

    /// Ends the life, by the thread that has begun it; of another one it is nothing.
    pub fn end(&self) {
        // SAFETY: an initialised mutex; a robust one of another thread stays locked (EPERM).
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Holds it for as long as the value lives.
    ///
    /// # Panics
    /// As [`begin`](Self::begin).
    pub fn hold(&self) -> LifeGuard<'_> {
        self.begin();
        LifeGuard(self, PhantomData)
    }

    /// True if the thread has died in it. `true` for one caller only.
    pub fn has_died(&self) -> bool {
        // SAFETY: an initialised mutex.
        let locked = unsafe { libc::pthread_mutex_trylock(self.0.get()) };
        self.locked(locked).is_some_and(|died| self.end_look(died))
    }

    /// Waits in the kernel until the thread that has begun it ends it or dies; whether it
    /// died. `true` for one caller only, of this and of [`has_died`](Self::has_died).
    pub fn outlast(&self) -> bool {
        self.lock().is_some_and(|died| self.end_look(died))
    }

    /// Locked for a look only.
    fn end_look(&self, died: bool) -> bool {
        self.end();
        died
    }

    /// Returns true if its owner before has died; `None` if this thread has it.
    fn lock(&self) -> Option<bool> {
        // SAFETY: an initialised mutex, which says so if this thread has it.
        self.locked(unsafe { libc::pthread_mutex_lock(self.0.get()) })
    }

    /// Reads the C library's answer of a mutex: true if its owner before has died; `None` if it is
    /// not locked by this call.
    fn locked(&self, answer: libc::c_int) -> Option<bool> {
        let died = answer == libc::EOWNERDEAD;
        if died {
            // SAFETY: locked by this thread just now, its owner dead.
            unsafe { libc::pthread_mutex_consistent(self.0.get()) };
        }
        (answer == 0 || died).then_some(died)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // SAFETY: an initialised mutex.
        let locked = unsafe { libc::pthread_mutex_trylock(self.0.get()) };
        if self.locked(locked).is_some() {
            self.end();
            // SAFETY: dropped once, and in no thread's list.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// Held by the thread that lives, and stays with it.
#[derive(Debug)]
pub struct LifeGuard<'a>(&'a Life, PhantomData<*const ()>);

impl Drop for LifeGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// Ends the thread as a seccomp filter does that kills it: nothing is unwound.
    fn killed(life: &Arc<Life>) {
        let life = Arc::clone(life);
        let (tell, told) = std::sync::mpsc::channel::<()>();
        thread::spawn(move || {
            life.begin();
            drop(tell);
            // SAFETY: ends this thread alone, which nobody joins.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
        told.recv().unwrap_err();
    }

    #[test]
    fn who_waits_is_told_of_a_death_and_of_an_end() {
        for dies in [true, false] {
            let life = Arc::new(Life::default());
            let (tell, told) = channel();
            let (go, gone) = channel::<()>();
            let theirs = Arc::clone(&life);
            thread::spawn(move || {
                theirs.begin();
                tell.send(()).unwrap();
                gone.recv().unwrap();
                if dies {
                    // SAFETY: ends this thread alone, which nobody joins.
                    unsafe { libc::syscall(libc::SYS_exit, 0) };
                }
                theirs.end();
            });
            told.recv().unwrap();
            let waits = {
                let life = Arc::clone(&life);
                thread::spawn(move || life.outlast())
            };
            go.send(()).unwrap();
            assert_eq!(waits.join().unwrap(), dies);
            assert!(!life.has_died());
        }
    }

    #[test]
    fn a_death_is_told_once_and_another_may_begin() {
        let life = Arc::new(Life::default());
        assert!(!life.has_died());
        drop(life.hold());
        assert!(!life.has_died());
        killed(&life);
        while !life.has_died() {
            thread::yield_now();
        }
        assert!(!life.has_died());
        // Not noticed by anybody.
        killed(&life);
        let held = life.hold();
        let shared = Arc::clone(&life);
        assert!(!thread::spawn(move || shared.has_died()).join().unwrap(), "it lives");
        drop(held);
        assert!(!life.has_died());
    }

    /// Freed, its memory would be another's when the kernel marks it.
    #[test]
    fn one_that_is_dropped_while_it_is_held_stays() {
        let words = size_of::<libc::pthread_mutex_t>() / size_of::<i32>();
        let (tid, others) = thread::spawn(move || {
            let life = Life::default();
            life.begin();
            drop(life);
            // SAFETY: only asks. What the kernel looks for, in whatever memory is free now.
            let tid = unsafe { libc::gettid() };
            (tid, (0..64).map(|_| vec![tid; words]).collect::<Vec<_>>())
        })
        .join()
        .unwrap();
        assert!(others.concat().iter().all(|word| *word == tid));
    }

    #[test]
    fn who_has_begun_it_is_told_and_does_not_hang() {
        let life = Life::default();
        let held = life.hold();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.begin())).is_err());
        assert!(!life.has_died() && !life.outlast());
        drop(held);
        drop(life.hold());
    }
}
