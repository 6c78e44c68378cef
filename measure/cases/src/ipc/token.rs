//! A word that is passed on: the smallest way to wake somebody.
//!
//! The word is [`NONE`] or holds a value for the taker. The giver writes it
//! (Release) and wakes; the taker sleeps while it is `NONE`, reads it
//! (Acquire, the partner) and puts `NONE` back. The kernel compares the word
//! under its own lock before it lets the taker sleep, so a value that comes in
//! between is seen. Giver and taker alternate: a second value before the first
//! is taken would overwrite it.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

use super::caller::Caller;
use kumiki_measure::error::Result;

/// The word while nothing is passed.
pub(crate) const NONE: u32 = 0;

/// Passes `value`, which is not [`NONE`], on. Says how many sleepers were
/// woken: none or one.
#[inline]
pub(crate) fn pass(word: &AtomicU32, value: u32, flags: Flags) -> Result<usize, Errno> {
    word.store(value, Ordering::Release);
    futex::wake(word, flags, 1)
}

/// Sleeps until a value is passed, and takes it.
#[inline]
pub(crate) fn take<C: Caller>(caller: &C, word: &AtomicU32, flags: Flags) -> Result<u32, C::Error> {
    loop {
        let value = word.load(Ordering::Acquire);
        if value != NONE {
            // Relaxed: the giver waits for an answer before it writes again,
            // and the answer orders.
            word.store(NONE, Ordering::Relaxed);
            return Ok(value);
        }
        caller.call("wait on a futex", || sleep(word, NONE, flags))?;
    }
}

/// Sleeps while `word` holds `value`; may return early.
#[inline]
pub(crate) fn sleep(word: &AtomicU32, value: u32, flags: Flags) -> Result<(), Errno> {
    match futex::wait(word, flags, value, None) {
        Err(Errno::AGAIN) => Ok(()),
        outcome => outcome,
    }
}
