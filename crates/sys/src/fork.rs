//! Notices fork(2): the child has its parent's memory but not its threads.
//!
//! A page that the kernel clears in every child (`MADV_WIPEONFORK`, madvise(2),
//! Linux 4.14; raw system calls included) holds the process's id. Asking is a
//! load from a cache line that nobody writes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, madvise};

use crate::error::{Error, Result};
use crate::shm::{Anon, Huge, Populate};

/// Length of the cleared mapping: one page.
const BYTES: usize = 4096;

/// A process, as its own memory knows it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    word: &'static AtomicU32,
    id: u32,
}

impl Process {
    /// The calling process.
    ///
    /// # Errors
    /// [`Error::Os`] if memory is exhausted or the kernel older than 4.14.
    pub fn current() -> Result<Self> {
        static PAGE: OnceLock<Anon> = OnceLock::new();
        let page = match PAGE.get() {
            Some(page) => page,
            // Of several threads that come here first, one page stays.
            None => PAGE.get_or_init({
                let page = wiped_in_children()?;
                || page
            }),
        };
        let word = page.atomic_u32(0);
        let id = std::process::id();
        // In a child that starts threads of its own the word counts again, with
        // another id than that of what it has inherited.
        word.store(id, Ordering::Relaxed);
        Ok(Process { word, id })
    }

    /// Whether the caller is in this process, and not in a child of it.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.id
    }
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
