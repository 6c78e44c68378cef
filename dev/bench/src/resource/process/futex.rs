//! Another process that answers and does nothing else: what waking somebody on the same cpu and
//! sleeping until the answer costs.

use std::os::unix::process::ExitStatusExt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use anyhow::{Result, ensure};
use kumiki_sys::futex::{self, Scope};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

const IDLE: u32 = 0;
const ASKED: u32 = 1;

const PAGE: usize = 4096;

/// It.
pub(super) struct Other {
    /// Both see it.
    word: NonNull<AtomicU32>,
    process: libc::pid_t,
}

impl Other {
    /// On the cpus of this thread, in a process of one thread.
    pub(super) fn start() -> Result<Other> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, access, MapFlags::SHARED) }?;
        let word = NonNull::new(at.cast()).expect("a mapping is not at 0");
        // SAFETY: this process has one thread, and the child makes system calls only.
        let process = unsafe { libc::fork() };
        if process == 0 {
            // SAFETY: changes this process only.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            // SAFETY: mapped, zero at first, and used as this on both sides.
            answer(unsafe { word.as_ref() });
        }
        ensure!(process > 0, "a second process for `futex`: {}", std::io::Error::last_os_error());
        Ok(Other { word, process })
    }

    /// Wakes it, and sleeps until it has answered.
    pub(super) fn ask(&self) {
        // SAFETY: as in `start`.
        let word = unsafe { self.word.as_ref() };
        // Release and acquire: partners are those in `answer`.
        word.store(ASKED, Release);
        futex::wake(word, 1, Scope::Shared).expect("the kernel has futexes");
        while word.load(Acquire) == ASKED {
            let _ = futex::wait(word, ASKED, Scope::Shared, None);
        }
    }
}

fn answer(word: &AtomicU32) -> ! {
    loop {
        while word.load(Acquire) == IDLE {
            let _ = futex::wait(word, IDLE, Scope::Shared, None);
        }
        word.store(IDLE, Release);
        let _ = futex::wake(word, 1, Scope::Shared);
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: a child of this process, which nobody has waited for.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
        // SAFETY: as above.
        unsafe { libc::waitpid(self.process, &raw mut status, 0) };
        debug_assert!(std::process::ExitStatus::from_raw(status).signal().is_some());
        // SAFETY: mapped by `start`, and nobody uses it now.
        let _ = unsafe { munmap(self.word.as_ptr().cast(), PAGE) };
    }
}
