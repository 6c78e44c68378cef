//! A side of a comparison: a command and its surroundings.

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
