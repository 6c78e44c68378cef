//! The first line of a doc comment names the thing or says what it does: `Waits for the answer`,
//! `Descriptors by their places`. A line that begins with "What", "Of", "So many", "The same" or
//! "Who" makes its reader look at the code for what is meant.
//!
//! Many stand from before. A crate may have as many as `dev/xtask/first-lines.txt` says, and that
//! number only falls: who mends some writes the new number there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run::{metadata, root};

/// Words that no first line begins with.
const WORDS: [&str; 5] = ["What", "Of", "So many", "The same", "Who"];
/// A crate's name and how many it may have, a line each.
const MOST: &str = "dev/xtask/first-lines.txt";

/// Checks every crate of the workspace.
pub(crate) fn check() -> Result<()> {
    let text = fs::read_to_string(root().join(MOST)).with_context(|| format!("reading {MOST}"))?;
    let most = read(&text)?;
    let mut counts = BTreeMap::new();
    for package in metadata()?.workspace_packages() {
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        let mut found = Vec::new();
        each_source(folder.join("src").as_std_path(), &mut |file, text| {
            found.extend(faulty(text).map(|(number, line)| format!("{file}:{number}: {line}")));
        })?;
        counts.insert(package.name.to_string(), found);
    }
    let (faults, falls) = compared(&most, &counts);
    for fall in falls {
        eprintln!("first lines: {fall}");
    }
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Faults, and numbers that can fall.
fn compared(
    most: &BTreeMap<String, usize>,
    counts: &BTreeMap<String, Vec<String>>,
) -> (Vec<String>, Vec<String>) {
    let (mut faults, mut falls) = (Vec::new(), Vec::new());
    for (package, found) in counts {
        let (count, most) = (found.len(), most.get(package).copied().unwrap_or(0));
        let words = WORDS.map(|word| format!("{word:?}")).join(", ");
        if count > most {
            faults.push(format!(
                "{package}: {count} doc comments begin with {words}, of {most} at most ({MOST}): \
                 name the thing, or begin with a verb\n    {}",
                found.join("\n    ")
            ));
        } else if count < most {
            falls.push(format!("{package} has {count}, and {MOST} says {most}: let it fall"));
        }
    }
    for package in most.keys().filter(|package| !counts.contains_key(*package)) {
        faults.push(format!("{MOST}: the workspace has no package {package}"));
    }
    (faults, falls)
}

fn read(text: &str) -> Result<BTreeMap<String, usize>> {
    let line = |line: &str| {
        let (package, most) = line.split_once(' ').with_context(|| format!("{MOST}: {line:?}"))?;
        Ok((package.to_owned(), most.parse().with_context(|| format!("{MOST}: {line:?}"))?))
    };
    text.lines().map(line).collect()
}

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
                    \u{20}   /// What else.\n    b: u8,\n    /// The same.\n    c: u8,\n// Of none.\n";
        let found: Vec<_> = faulty(text).collect();
        assert_eq!(found, [(1, "What it is."), (9, "The same.")]);
    }

    #[test]
    fn a_number_only_falls() {
        let most = read("a 1\nb 2\n").unwrap();
        let counts = |a: &[&str], b: &[&str]| {
            let of = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
            BTreeMap::from([("a".to_owned(), of(a)), ("b".to_owned(), of(b))])
        };
        let (faults, falls) = compared(&most, &counts(&["1"], &["1", "2"]));
        assert!(faults.is_empty() && falls.is_empty());
        let (faults, falls) = compared(&most, &counts(&["f.rs:1: Of it", "f.rs:2: Of"], &[]));
        assert!(
            faults[0].contains("a: 2 doc comments") && faults[0].contains("f.rs:2"),
            "{faults:?}"
        );
        assert!(falls[0].contains("b has 0"), "{falls:?}");
        let (faults, _) = compared(&most, &BTreeMap::from([("a".to_owned(), Vec::new())]));
        assert!(faults[0].contains("no package b"), "{faults:?}");
        assert!(read("a\n").is_err() && read("a many\n").is_err());
    }
}
