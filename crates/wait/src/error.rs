//! What can go wrong: at creation a choice that this machine cannot follow,
//! later only the time.

/// A wait that cannot be set up as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine lacks the chosen way to sleep.
    #[error("{feature} is not available: {needs}")]
    Unsupported {
        /// What is missing, and who asked for it.
        feature: String,
        /// What it would take.
        needs: String,
    },
    /// A name that is no way to sleep.
    #[error("{text:?} is no way to sleep: take auto, umwait, mwaitx or futex")]
    UnknownSleep {
        /// The name, with the variable that held it.
        text: String,
    },
}

/// The deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed before what was waited for came")]
pub struct TimedOut;
