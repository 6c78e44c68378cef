//! Saying what shall happen when a signal comes: nothing is sent.

use nix::sys::signal::SigSet;

use super::SIGNAL;
use super::disposition::Disposition;
use crate::mask::Mask;
use kumiki_measure::case::{Case, Each};
use kumiki_measure::error::Error;

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("signal.install", "install a handler (sigaction)", |_| {
            let handler = Disposition::count()?;
            Ok(Each(move || handler.count_again()))
        }),
        Case::new(
            "signal.mask",
            "block a signal and unblock it (two calls of sigprocmask)",
            |_| {
                let signals = SigSet::from(SIGNAL);
                let as_before = Mask::unblock(&signals)?;
                Ok(Each(move || {
                    let _put_back_on_drop = &as_before;
                    let failed = |e| Error::os(format!("sigprocmask {SIGNAL}"), e);
                    signals.thread_block().map_err(failed)?;
                    signals.thread_unblock().map_err(failed)
                }))
            },
        ),
    ]
}
