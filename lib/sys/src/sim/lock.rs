//! A lock that a simulated thread may hold while others run: std's would stop the one thread of the
//! system that all are on.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use super::atomic::{AtomicU32, Ordering};
use super::machine;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody sleeps or is about to.
const WANTED: u32 = 2;

/// Double of std's: a futex's word with three states, as std's own has it.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    word: AtomicU32,
    /// Outside of a run.
    real: std::sync::Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: who holds the lock has the value alone.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: it goes with its value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

/// The value of a held lock.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    real: Option<std::sync::MutexGuard<'a, ()>>,
}

impl<T> Mutex<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        let (word, real) = (AtomicU32::new(FREE), std::sync::Mutex::new(()));
        Mutex { word, real, value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.real.is_poisoned();
        let value = self.value.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it.
    ///
    /// # Errors
    /// Outside of a run a holder has panicked.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let Some(machine) = machine() else {
            let mutex = self;
            return match self.real.lock() {
                Ok(real) => Ok(MutexGuard { mutex, real: Some(real) }),
                Err(poisoned) => {
                    let real = Some(poisoned.into_inner());
                    Err(PoisonError::new(MutexGuard { mutex, real }))
                }
            };
        };
        let failed = Ordering::Relaxed;
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, failed).is_err() {
            while self.word.swap(WANTED, Ordering::Acquire) != FREE {
                let changed = || self.word.load(Ordering::Relaxed) != WANTED;
                machine.sleep(self.word.as_ptr().addr(), &changed, None);
            }
        }
        Ok(MutexGuard { mutex: self, real: None })
    }

    /// Locks it, if it is free.
    ///
    /// # Errors
    /// It is held; outside of a run also if a holder has panicked.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let mutex = self;
        if machine().is_none() {
            return match self.real.try_lock() {
                Ok(real) => Ok(MutexGuard { mutex, real: Some(real) }),
                Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
                Err(TryLockError::Poisoned(poisoned)) => {
                    let real = Some(poisoned.into_inner());
                    Err(TryLockError::Poisoned(PoisonError::new(MutexGuard { mutex, real })))
                }
            };
        }
        let failed = Ordering::Relaxed;
        match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, failed) {
            Ok(_) => Ok(MutexGuard { mutex, real: None }),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// The value, by who has the lock alone.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.real.is_poisoned();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and this borrows its guard alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.real.is_some() {
            return;
        }
        if self.mutex.word.swap(FREE, Ordering::Release) == WANTED {
            if let Some(machine) = machine() {
                machine.wake(self.mutex.word.as_ptr().addr(), 1);
            }
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
