//! A side of a comparison: a command and its surroundings.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Seconds that a side measures a case at a time: some visits of it.
const CASE_SECONDS: &str = "1";

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

    /// Side that measures a case of `kumiki measure`: run by its words, if there are any, by the
    /// `kumiki` that is found there; else by this one, which keeps its results in `scratch`.
    pub fn measuring(self, case: &str, kumiki: &Path, scratch: &Path) -> Self {
        // What is measured for a comparison is no result to be kept.
        let (kumiki, db) = match self.words.is_empty() {
            true => (kumiki.display().to_string(), scratch.join("ab.db").display().to_string()),
            false => ("kumiki".to_owned(), "/tmp/kumiki-ab.db".to_owned()),
        };
        let measure =
            [&kumiki, "measure", case, "--quick", "--time", CASE_SECONDS, "--json", "--db", &db];
        let words = self.words.into_iter().chain(measure.map(str::to_owned)).collect();
        Side { words, measures: true, ..self }
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
    fn a_case_is_measured_here_or_by_whoever_runs_it() {
        let of = |side: Side| side.measuring("process.exec", "/bin/kumiki".as_ref(), "/s".as_ref());
        let here = of(Side::default());
        assert!(here.measures && here.words[..3] == ["/bin/kumiki", "measure", "process.exec"]);
        assert_eq!(here.words.last().unwrap(), "/s/ab.db");
        let there = of(Side::new(["ssh", "b"]));
        assert_eq!(there.words[..4], ["ssh", "b", "kumiki", "measure"]);
        assert_eq!(there.words.last().unwrap(), "/tmp/kumiki-ab.db");
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let mut side = Side::new(["grep", "it's here", "a.txt", ""]);
        side.env = vec![("LC_ALL".to_owned(), "C".to_owned())];
        assert_eq!(side.command(), r"LC_ALL=C grep 'it'\''s here' a.txt ''");
        let shell = Side { shell: true, ..Side::new(["a | b"]) };
        assert_eq!(shell.command(), "a | b");
    }
}
