//! What can go wrong: when a waiter is made, a way to sleep that this machine lacks;
//! later only the deadline.

/// A waiter that cannot be made as asked.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine lacks the chosen way to sleep.
    #[error("{feature} is not available: {needs}")]
    Unsupported {
        /// The way that is missing, and who asked for it.
        feature: String,
        /// The machine that it would take.
        needs: String,
    },
    /// The name is not that of a way to sleep.
    #[error("{text:?} is not a way to sleep: take auto, umwait, mwaitx, mwait or futex")]
    UnknownSleep {
        /// The name, with the variable that held it.
        text: String,
    },
}

kumiki_sys::debug_is_display!(Error);

/// The deadline has passed.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed before what was waited for came")]
pub struct TimedOut;

kumiki_sys::debug_is_display!(TimedOut);
