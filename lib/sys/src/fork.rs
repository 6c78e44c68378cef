//! Notices fork(2): the child has its parent's memory but not its threads.
//!
//! A page that the kernel clears in every child (`MADV_WIPEONFORK`, madvise(2),
//! Linux 4.14; raw system calls included) holds the process's generation. Asking
//! is a load from a cache line that nobody writes.
//!
//! A counter of generations is in ordinary memory, which a child inherits. The thread
//! that finds the word cleared increments the counter and writes the new number to the
//! word; since every number is counted before it is handed out, all numbers that a child
//! has inherited are smaller. Process ids would not do, because they repeat: a process 1
//! that forks into a new PID namespace (a container's init that starts a sandbox) has a
//! child that is process 1, too.

use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use rustix::mm::{Advice, madvise};

use crate::error::{Error, Result};
use crate::shm::{Anon, Huge, Populate};

/// Length of the cleared mapping: one page.
const BYTES: usize = 4096;

/// A process, as known in its own memory. Not for memory that processes share: another
/// process may have the same number.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    word: &'static AtomicU64,
    generation: u64,
}

impl Process {
    /// The calling process.
    ///
    /// # Errors
    /// [`Error::Os`] if memory is exhausted or the kernel older than 4.14.
    pub fn current() -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let word = wiped_word()?;
        Ok(Process { word, generation: generation(word, &LAST) })
    }

    /// True if the caller is in this process, and not in a child of it.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        self.word.load(Relaxed) == self.generation
    }
}

/// A value per process: a child of fork(2) begins with a new one, whatever state the
/// inherited one was in. Inherited values are leaked.
#[derive(Debug)]
pub struct PerProcess<T: 'static> {
    now: AtomicPtr<(Process, T)>,
}

impl<T: Default + Sync + 'static> PerProcess<T> {
    /// Makes an empty one: the value is made when it is asked for.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        PerProcess { now: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The calling process's value.
    ///
    /// # Errors
    /// As [`Process::current`].
    pub fn get(&'static self) -> Result<&'static T> {
        // Acquire: partner is the exchange.
        let old = self.now.load(Acquire);
        // SAFETY: null, or from the exchange below, and never freed since.
        if let Some((process, value)) = unsafe { old.as_ref() } {
            if process.is_current() {
                return Ok(value);
            }
        }
        let new = Box::into_raw(Box::new((Process::current()?, T::default())));
        // Release: partner is the load. Another thread may have been first; ours
        // is left behind then, as the inherited one is.
        let exchanged = self.now.compare_exchange(old, new, AcqRel, Acquire);
        let now = exchanged.map_or_else(|now| now, |_| new);
        // SAFETY: from the exchange, by this thread or another of this process.
        Ok(unsafe { &(*now).1 })
    }
}

/// Generation that `word` holds; the number after `last` if that is nothing yet.
fn generation(word: &AtomicU64, last: &AtomicU64) -> u64 {
    match word.load(Relaxed) {
        0 => {
            let next = last.fetch_add(1, Relaxed) + 1;
            // Of several threads that come here first, one number stays.
            word.compare_exchange(0, next, Relaxed, Relaxed).map_or_else(|now| now, |_| next)
        }
        generation => generation,
    }
}

/// The word that the kernel clears in children.
fn wiped_word() -> Result<&'static AtomicU64> {
    // Not a `OnceLock`: if another thread is in its initialiser at a fork(2), the
    // child waits for a thread that it does not have.
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    // Acquire: partner is the exchange.
    let mut now = WORD.load(Acquire);
    if now.is_null() {
        let page = wiped_in_children()?;
        let new = page.as_ptr().cast();
        // Release: partner is the load. Another thread may have been first; then
        // our page goes.
        now = match WORD.compare_exchange(now, new, AcqRel, Acquire) {
            Ok(_) => {
                mem::forget(page);
                new
            }
            Err(first) => first,
        };
    }
    // SAFETY: from the exchange, by whichever thread: the beginning of a page that
    // is never unmapped, aligned and long enough, zeros at first, and an atomic for
    // all who use it.
    Ok(unsafe { &*now })
}

/// A page that the kernel clears in children.
fn wiped_in_children() -> Result<Anon> {
    let page = Anon::new(BYTES, Huge::Never, Populate::Now)?;
    let start = page.as_ptr().cast();
    // SAFETY: the mapping is private, anonymous, ours, and of that length; the
    // advice changes nothing in this process.
    unsafe { madvise(start, page.len(), Advice::LinuxWipeOnFork) }
        .map_err(|e| Error::os("madvise(MADV_WIPEONFORK), Linux 4.14 or later", e))?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    const GOOD: i32 = 0;
    const BAD: i32 = 1;
    const REFUSED: i32 = 77;

    /// Forks, with more `flags` of clone(2); what `part` gives in the child, which
    /// must not allocate: other threads of the tests may hold the allocator's lock.
    fn forked(flags: i32, part: impl FnOnce() -> i32) -> i32 {
        let flags = libc::c_long::from(flags | libc::SIGCHLD);
        // SAFETY: without CLONE_VM, so a fork: the child has a copy of everything,
        // and leaves without returning from here.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            -1 => REFUSED,
            0 => {
                let code = part();
                // SAFETY: ends the child and nothing else.
                unsafe { libc::_exit(code) }
            }
            child => {
                let mut status = 0;
                // SAFETY: a child of ours, and an integer of ours to write to.
                let waited = unsafe { libc::waitpid(child as i32, &mut status, 0) };
                assert_eq!(i64::from(waited), child);
                if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { BAD }
            }
        }
    }

    /// Checks in a child that the inherited process is another one and stays so.
    fn is_left(inherited: Process) -> i32 {
        let left = !inherited.is_current();
        let Ok(own) = Process::current() else { return BAD };
        if left && own.is_current() && !inherited.is_current() { GOOD } else { BAD }
    }

    #[test]
    fn children_are_other_processes() {
        let parent = Process::current().unwrap();
        let grandchild = || {
            let Ok(child) = Process::current() else { return BAD };
            forked(0, || is_left(parent).max(is_left(child)))
        };
        assert_eq!(forked(0, || is_left(parent)), GOOD);
        assert_eq!(forked(0, grandchild), GOOD);
        assert!(parent.is_current());
        assert_eq!(parent.generation, Process::current().unwrap().generation);
    }

    #[test]
    fn so_is_a_child_with_its_parents_id() {
        let first = || {
            let Ok(parent) = Process::current() else { return BAD };
            if std::process::id() != 1 {
                return BAD;
            }
            let second = || if std::process::id() == 1 { is_left(parent) } else { BAD };
            forked(libc::CLONE_NEWPID, second)
        };
        let ways = [libc::CLONE_NEWPID, libc::CLONE_NEWPID | libc::CLONE_NEWUSER];
        let codes = ways.map(|flags| forked(flags, first));
        if codes == [REFUSED; 2] {
            eprintln!("skipped: this machine lets us make no PID namespace");
            return;
        }
        assert!(codes.iter().all(|code| [GOOD, REFUSED].contains(code)), "{codes:?}");
    }

    #[test]
    fn a_cleared_word_gets_a_number_that_it_has_never_held() {
        let (word, last) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut held = Vec::new();
        for _ in 0..3 {
            // As the kernel does in a child.
            word.store(0, Relaxed);
            let own = generation(&word, &last);
            assert_eq!((generation(&word, &last), word.load(Relaxed)), (own, own));
            assert!(own != 0 && !held.contains(&own), "{own} after {held:?}");
            held.push(own);
        }
    }

    #[test]
    fn threads_that_come_first_at_once_agree() {
        const THREADS: usize = 2;
        let words: Vec<_> = (0..100_000).map(|_| AtomicU64::new(0)).collect();
        let (last, come) = (AtomicU64::new(0), AtomicUsize::new(0));
        let ask = || -> Vec<u64> {
            let ask = |(round, word)| {
                come.fetch_add(1, Relaxed);
                // Spinning: threads that are woken come one after the other.
                while come.load(Relaxed) < (round + 1) * THREADS {
                    thread::yield_now();
                }
                generation(word, &last)
            };
            words.iter().enumerate().map(ask).collect()
        };
        let seen = thread::scope(|threads| {
            let threads = [(); THREADS].map(|()| threads.spawn(ask));
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(seen.iter().all(|numbers| *numbers == seen[0]));
    }
}
