//! The first line of a doc comment names the thing or says what it does: `Waits for the answer`,
//! `Descriptors by their places`, `True if nobody waits`. A line that begins with a pronoun, a
//! question word or a preposition ("What", "Whether", "How", "It", "By", "From") makes its reader
//! look at the code for what is meant.
//!
//! Some stand from before: `dev/xtask/first-lines.txt` has a number for each crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::falling::Falling;
use crate::run::{metadata, root};

/// Words that no first line begins with.
const WORDS: [&str; 44] = [
    "After", "And", "As", "At", "Before", "Below", "Between", "By", "For", "From", "How", "If",
    "In", "It", "Of", "One of", "One that", "Or", "Since", "So", "That", "The same", "There",
    "These", "They", "This is", "Those", "To", "Until", "What", "Whatever", "When", "Where",
    "Whether", "Which", "While", "Who", "Whoever", "Whom", "Whose", "Why", "With", "Within",
    "Without",
];

const FALLING: Falling = Falling {
    file: "dev/xtask/first-lines.txt",
    faults: "doc comments begin with a pronoun, a question word or a preposition",
    remedy: "name the thing, or begin with a verb",
};

/// Checks every crate of the workspace.
pub(crate) fn check() -> Result<()> {
    let mut counts = BTreeMap::new();
    for package in metadata()?.workspace_packages() {
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        let mut found = Vec::new();
        each_source(folder.join("src").as_std_path(), &mut |file, text| {
            found.extend(faulty(text).map(|(number, line)| format!("{file}:{number}: {line}")));
        })?;
        counts.insert(package.name.to_string(), found);
    }
    FALLING.check(&counts)
}

/// Calls `work` with the path and text of each Rust source in a folder.
pub(crate) fn each_source(folder: &Path, work: &mut dyn FnMut(&str, &str)) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            each_source(&path, work)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            work(&shown, &text);
        }
    }
    Ok(())
}

/// First lines that begin so, each with its number.
fn faulty(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let doc = |line: &str| line.trim_start().starts_with("///");
    let lines = text.lines().zip(std::iter::once("").chain(text.lines())).enumerate();
    lines.filter_map(move |(number, (line, before))| {
        let first = line.trim_start().strip_prefix("///")?.trim();
        (!doc(before) && WORDS.iter().any(|word| begins(first, word)))
            .then_some((number + 1, first))
    })
}

fn begins(line: &str, word: &str) -> bool {
    let rest = line.strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_alone_count() {
        let text = "/// What it is.\n/// Of something.\nfn a() {}\n\n    /// Office hours.\n    ///\n\
                    \u{20}   /// What else.\n    b: u8,\n    /// The same.\n    c: u8,\n// Of none.\n\
                    /// Whether it is.\nd: u8,\n/// Asks.\n/// Itself.\n/// One record.\ne: u8,\n// Beside.\n/// By its number.\nf: u8,\n";
        let found: Vec<_> = faulty(text).collect();
        assert_eq!(
            found,
            [(1, "What it is."), (9, "The same."), (12, "Whether it is."), (19, "By its number.")]
        );
    }
}
