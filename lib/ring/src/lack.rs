//! What a machine lacks.

/// Why something is not there, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What was seen.
    pub reason: String,
    /// What helps.
    pub remedy: String,
}

impl Lack {
    /// This reason, and this remedy.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Lack { reason: reason.into(), remedy: remedy.into() }
    }
}
