//! Packs a closure into a line and its result out of it.
//!
//! Captures and result that fit (48 bytes, alignment of a word) travel in the
//! command line itself; larger ones in a box, of which the pointer travels.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::line::{Request, Run, WORDS, Words};
use crate::primitive::touch;

/// True if a `T` can lie in the words of a line.
const fn fits<T>() -> bool {
    size_of::<T>() <= WORDS * size_of::<u64>() && align_of::<T>() <= align_of::<u64>()
}

/// Moves `value` into the words.
///
/// # Safety
/// `words` is writable, and what lies there needs no drop.
#[inline(always)]
unsafe fn put<T>(words: *mut Words, value: T) {
    if const { fits::<T>() } {
        touch(words.cast::<T>(), true);
        // SAFETY: size and alignment were checked just now; the caller lets us write.
        unsafe { words.cast::<T>().write(value) };
    } else {
        let boxed = Box::into_raw(Box::new(value));
        touch(boxed, true);
        touch(words.cast::<*mut T>(), true);
        // SAFETY: a pointer fits.
        unsafe { words.cast::<*mut T>().write(boxed) };
    }
}

/// Moves a `T` out of the words.
///
/// # Safety
/// [`put`] put a `T` there, and nobody takes it a second time.
#[inline(always)]
unsafe fn take<T>(words: *mut Words) -> T {
    if const { fits::<T>() } {
        touch(words.cast::<T>(), false);
        // SAFETY: the caller says that a `T` lies there.
        unsafe { words.cast::<T>().read() }
    } else {
        // SAFETY: the caller says that the pointer of a boxed `T` lies there.
        let boxed = unsafe { words.cast::<*mut T>().read() };
        touch(boxed, false);
        // SAFETY: `put` made it from a box, and it is taken once.
        *unsafe { Box::from_raw(boxed) }
    }
}

/// The payload of a closure's panic.
type Panic = Box<dyn Any + Send>;

/// Writes `job` into `request`, to be run once by [`execute`].
///
/// # Safety
/// `request` is writable and this thread's.
#[inline(always)]
pub unsafe fn pack<F, R>(request: *mut Request, job: F)
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    // SAFETY: the caller's promise covers both fields.
    let function = unsafe { &raw mut (*request).run };
    // SAFETY: as above.
    let words = unsafe { &raw mut (*request).words };
    // SAFETY: writable, and a `Run` needs no drop.
    unsafe { function.write(Some(run::<F, R>)) };
    // SAFETY: writable; words are never dropped where they lie.
    unsafe { put(words, job) };
}

/// Runs the closure in `words` and leaves there its result, or what it
/// panicked with.
///
/// # Safety
/// The words hold an `F` that [`pack`] put there and that has not been run.
unsafe fn run<F, R>(words: *mut Words) -> bool
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    // SAFETY: the caller's promise.
    let job = unsafe { take::<F>(words) };
    // Unwind safety is the joining thread's matter, as with std's threads: it
    // gets the panic and knows that what the closure borrowed may be half done.
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(result) => {
            // SAFETY: the closure was moved out, so nothing lies there.
            unsafe { put(words, result) };
            true
        }
        Err(panic) => {
            // SAFETY: as above.
            unsafe { put::<Panic>(words, panic) };
            false
        }
    }
}

/// Runs `request` where it lies; `true` if it did not panic.
///
/// # Safety
/// [`pack`] has put a job into `request`, which has not run and is this thread's.
#[inline(always)]
pub unsafe fn execute(request: *mut Request) -> bool {
    // SAFETY: the caller's promise.
    let function: Option<Run> = unsafe { (*request).run };
    let function = function.expect("a request has a function");
    // SAFETY: as above.
    let words = unsafe { &raw mut (*request).words };
    // SAFETY: the caller promises what `run` asks for.
    unsafe { function(words) }
}

/// Moves the result of a job that has run out of `request`.
///
/// # Safety
/// The job was packed with this `R` and has run, with this `success`; its
/// result is taken once; `request` is this thread's.
#[inline(always)]
pub unsafe fn unpack<R>(request: *mut Request, success: bool) -> thread::Result<R> {
    // SAFETY: the caller's promise.
    let words = unsafe { &raw mut (*request).words };
    if success {
        // SAFETY: a job that succeeded has put an `R`.
        Ok(unsafe { take::<R>(words) })
    } else {
        // SAFETY: a job that panicked has put a `Panic`.
        Err(unsafe { take::<Panic>(words) })
    }
}

/// Drops the result of a job that has run, or what it panicked with.
///
/// # Safety
/// As [`unpack`].
pub unsafe fn discard<R>(request: *mut Request, success: bool) {
    // SAFETY: the caller's promise.
    drop(unsafe { unpack::<R>(request, success) });
}

/// Drops the captures of a job that has not run and never will.
///
/// # Safety
/// [`pack`] put an `F` into `request`, which is this thread's.
pub unsafe fn cancel<F>(request: *mut Request) {
    // SAFETY: the caller's promise.
    let words = unsafe { &raw mut (*request).words };
    // SAFETY: as above; it is not run, so it is taken once.
    drop(unsafe { take::<F>(words) });
}

const _: () = {
    assert!(fits::<Panic>(), "a panic travels in the line");
};
