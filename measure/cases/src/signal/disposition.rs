//! What the process does with the signal of the cases.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};

use super::SIGNAL;
use kumiki_measure::error::{Error, Result};

/// Number of runs of the counting handler. Only differences mean something.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    CAUGHT.fetch_add(1, Ordering::Relaxed);
}

/// Number of runs of [`Disposition::count`]'s handler until now.
pub(super) fn caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// A disposition of [`SIGNAL`], the former one put back on drop.
pub(super) struct Disposition {
    before: SigAction,
}

impl Disposition {
    /// A handler that counts.
    pub(super) fn count() -> Result<Self> {
        Ok(Disposition { before: set(&counting())? })
    }

    /// The signal is thrown away.
    pub(super) fn ignore() -> Result<Self> {
        let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        Ok(Disposition { before: set(&ignore)? })
    }

    /// Installs the counting handler once more.
    pub(super) fn count_again(&self) -> Result<()> {
        set(&counting()).map(drop)
    }
}

impl Drop for Disposition {
    fn drop(&mut self) {
        let _ = set(&self.before);
    }
}

fn counting() -> SigAction {
    SigAction::new(SigHandler::Handler(count), SaFlags::SA_RESTART, SigSet::empty())
}

/// Installs `action` and returns the one before.
#[inline]
fn set(action: &SigAction) -> Result<SigAction> {
    // SAFETY: `action` ignores, counts (one atomic addition, which is
    // async-signal-safe), or is what the process had before.
    unsafe { sigaction(SIGNAL, action) }.map_err(|e| Error::os(format!("sigaction {SIGNAL}"), e))
}
