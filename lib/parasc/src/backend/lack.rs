//! What a machine lacks.

/// A missing backend: the reason, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// Observation, in words.
    pub(crate) reason: String,
    /// Remedy.
    pub(crate) remedy: String,
}

impl Lack {
    /// This reason, and this remedy.
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Lack { reason: reason.into(), remedy: remedy.into() }
    }
}
