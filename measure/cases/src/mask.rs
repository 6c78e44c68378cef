//! Which signals the calling thread blocks.

use std::marker::PhantomData;

use nix::sys::signal::{SigSet, SigmaskHow};

use kumiki_measure::error::{Error, Result};

/// A changed signal mask of the calling thread, put back on drop. A mask
/// belongs to its thread, so this cannot go to another one.
pub(crate) struct Mask {
    before: SigSet,
    _this_thread: PhantomData<*const ()>,
}

impl Mask {
    /// Blocks `signals` beside those already blocked.
    pub(crate) fn block(signals: &SigSet) -> Result<Self> {
        Mask::change(signals, SigmaskHow::SIG_BLOCK)
    }

    /// Lets `signals` through.
    pub(crate) fn unblock(signals: &SigSet) -> Result<Self> {
        Mask::change(signals, SigmaskHow::SIG_UNBLOCK)
    }

    fn change(signals: &SigSet, how: SigmaskHow) -> Result<Self> {
        let before = signals
            .thread_swap_mask(how)
            .map_err(|e| Error::os("change the thread's signal mask", e))?;
        Ok(Mask { before, _this_thread: PhantomData })
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::*;

    fn blocked() -> bool {
        SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR2)
    }

    #[test]
    fn masks_nest() {
        let signals = SigSet::from(Signal::SIGUSR2);
        let unblocked = Mask::unblock(&signals).unwrap();
        {
            let _blocked = Mask::block(&signals).unwrap();
            assert!(blocked());
        }
        assert!(!blocked());
        drop(unblocked);
    }
}
