//! What a machine lacks.

/// Why a backend is not there, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// What was seen.
    pub(crate) reason: String,
    /// What helps.
    pub(crate) remedy: String,
}

impl Lack {
    /// This reason, and this remedy.
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Lack { reason: reason.into(), remedy: remedy.into() }
    }
}
