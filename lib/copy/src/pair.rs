//! Who copies.

use kumiki_shadow::Shadow;

/// Two threads that work at the same time: the caller and its helper.
pub trait Pair {
    /// Runs `theirs` on the helper while `ours` runs here; returns when both
    /// are done. A helper that has not begun when `ours` is done need not
    /// begin: `theirs` may then run here. Neither closure may still run when
    /// this unwinds.
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send);

    /// Ticks of the time stamp counter that would pass now before the helper
    /// begins, beyond what a fork to a spinning helper takes: 0 while it spins,
    /// the cost of a wake while it sleeps, `u64::MAX` if it is not to be asked. While
    /// it is 0 [`Method::Auto`](crate::Method::Auto) forks before it knows whether there is anything to
    /// share, if a fork takes little beside the copy: `theirs` then waits for `ours`,
    /// for some microseconds at most.
    fn wake_ticks(&self) -> u64 {
        0
    }

    /// True if [`both`](Self::both) would begin now: not while the helper is at something else that
    /// would be waited for. [`Method::Auto`](crate::Method::Auto) then copies alone.
    fn is_free(&self) -> bool {
        true
    }

    /// Bytes of the largest data cache that a core of this machine has to itself; `None`
    /// if nobody has read of them, and typical ones are assumed.
    fn core_cache_bytes(&self) -> Option<usize> {
        None
    }
}

impl Pair for Shadow {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        let ((), ()) = Shadow::both(self, ours, theirs);
    }

    fn wake_ticks(&self) -> u64 {
        self.wake_ticks()
    }

    fn is_free(&self) -> bool {
        !self.is_busy()
    }

    /// A virtual machine that shows one cpu a socket shows a last-level cache so, too.
    fn core_cache_bytes(&self) -> Option<usize> {
        let sizes = self.topology()?.cpus().flat_map(|cpu| {
            let own = cpu
                .caches
                .iter()
                .filter(|cache| cache.level <= 2 && cache.shared.len() <= cpu.siblings.len());
            own.filter_map(|cache| cache.size_bytes)
        });
        sizes.max().and_then(|bytes| usize::try_from(bytes).ok())
    }
}
