//! What is wrong with one key of a specification.

/// Fault of one key of a specification.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub key: &'static str,
    /// The value, the limit, and the way out.
    pub problem: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl Fault {
    pub fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Fault { key, problem: problem.into() }
    }
}
