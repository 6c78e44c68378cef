//! What a machine lacks.

/// A missing thing: the reason, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Observation, in words.
    pub reason: String,
    /// Remedy.
    pub remedy: String,
}

impl Lack {
    /// This reason, and this remedy.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Lack { reason: reason.into(), remedy: remedy.into() }
    }
}
