//! What is to be compared, and how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One side: a command and its surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables beside those of the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// The words are one line for `sh -c`.
    #[serde(default)]
    pub shell: bool,
    /// True if the command prints a result as `kumiki measure --json` does, and that is compared.
    #[serde(default)]
    pub measures: bool,
}

impl Side {
    /// A command in the caller's surroundings.
    pub fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Side { words: words.into_iter().map(Into::into).collect(), ..Side::default() }
    }

    /// Command line as a person would type it, variables first.
    pub fn command(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = self.words.iter().map(|word| match self.shell {
            true => word.clone(),
            false => quoted(word),
        });
        env.chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Side A, the command as it is.
    pub a: Side,
    /// Side B, which may be slower.
    pub b: Side,
    /// The least difference that matters, as a share: 0.02 is 2 %.
    pub detect: f64,
    /// Largest number of pairs.
    pub pairs: Option<usize>,
    /// No pair is begun after this.
    pub span: Duration,
    /// Go on to the last pair even if the verdict stands.
    pub all: bool,
    /// A shell line before each run, outside its time.
    pub prepare: Option<String>,
    /// The one cpu that both run on.
    pub cpu: Option<usize>,
    /// A run that fails is a run like any other.
    pub ignore_failure: bool,
}

impl Plan {
    /// Two minutes at most, for a difference of 2 %.
    pub fn new(a: Side, b: Side) -> Self {
        Plan {
            a,
            b,
            detect: 0.02,
            pairs: None,
            span: Duration::from_secs(120),
            all: false,
            prepare: None,
            cpu: None,
            ignore_failure: false,
        }
    }

    /// A side by its index in a pair.
    pub fn side(&self, at: usize) -> &Side {
        if at == 0 { &self.a } else { &self.b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_again() {
        let mut side = Side::new(["grep", "it's here", "a.txt", ""]);
        side.env = vec![("LC_ALL".to_owned(), "C".to_owned())];
        assert_eq!(side.command(), r"LC_ALL=C grep 'it'\''s here' a.txt ''");
        let shell = Side { shell: true, ..Side::new(["a | b"]) };
        assert_eq!(shell.command(), "a | b");
    }
}
