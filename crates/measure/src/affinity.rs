//! Binds threads and processes to one cpu.

use std::io;

use crate::error::{Error, Result};

/// A set of one cpu, as the kernel reads it: as long as that cpu's number
/// needs, so that no machine has too many.
#[derive(Clone, Debug)]
pub(crate) struct OneCpu {
    cpu: usize,
    words: Vec<libc::c_ulong>,
}

const BITS: usize = libc::c_ulong::BITS as usize;

impl OneCpu {
    /// The set of just `cpu`.
    pub(crate) fn new(cpu: usize) -> Self {
        let mut words = vec![0; cpu / BITS + 1];
        words[cpu / BITS] = 1 << (cpu % BITS);
        OneCpu { cpu, words }
    }

    /// Where the kernel finds the set, and its length in bytes.
    pub(crate) fn as_raw(&self) -> (*const libc::c_ulong, usize) {
        (self.words.as_ptr(), size_of_val(self.words.as_slice()))
    }

    /// Binds a thread by its id, or the calling one (`None`). A thread that
    /// runs elsewhere has been moved when this returns.
    pub(crate) fn bind(&self, thread: Option<rustix::process::Pid>) -> Result<()> {
        let (words, bytes) = self.as_raw();
        let id = thread.map_or(0, |thread| thread.as_raw_nonzero().get());
        // SAFETY: the kernel reads `bytes` bytes at `words`, which `self` owns.
        let outcome = unsafe { libc::syscall(libc::SYS_sched_setaffinity, id, bytes, words) };
        if outcome < 0 {
            let why = io::Error::last_os_error();
            return Err(Error::os(
                format!("bind to cpu {} (is it online and allowed?)", self.cpu),
                why,
            ));
        }
        Ok(())
    }
}

/// Binds the calling thread to `cpu`.
pub(crate) fn bind(cpu: usize) -> Result<()> {
    OneCpu::new(cpu).bind(None)
}
