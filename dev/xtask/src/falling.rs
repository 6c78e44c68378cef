//! Counts of faults that stand from before, a number for each crate in a file of ours. A number
//! only falls: who mends some faults writes the new number there.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::run::root;

/// A kind of fault that is counted.
pub(crate) struct Falling {
    /// File with a crate's name and its number of faults on each line, from the root.
    pub(crate) file: &'static str,
    /// Faults in words: `doc comments begin without a noun or a verb`.
    pub(crate) faults: &'static str,
    /// The way out.
    pub(crate) remedy: &'static str,
}

impl Falling {
    /// Fails if a crate has more faults than its number says; `found` has them in words.
    pub(crate) fn check(&self, found: &BTreeMap<String, Vec<String>>) -> Result<()> {
        let text = fs::read_to_string(root().join(self.file))
            .with_context(|| format!("reading {}", self.file))?;
        let (faults, falls) = self.compared(&self.read(&text)?, found);
        for fall in falls {
            eprintln!("{fall}");
        }
        if !faults.is_empty() {
            bail!("\n  {}", faults.join("\n  "));
        }
        Ok(())
    }

    /// Faults, and numbers that can fall.
    fn compared(
        &self,
        most: &BTreeMap<String, usize>,
        found: &BTreeMap<String, Vec<String>>,
    ) -> (Vec<String>, Vec<String>) {
        let Falling { file, faults: what, remedy } = self;
        let (mut faults, mut falls) = (Vec::new(), Vec::new());
        for (package, found) in found {
            let (count, most) = (found.len(), most.get(package).copied().unwrap_or(0));
            if count > most {
                faults.push(format!(
                    "{package}: {count} {what}, of {most} at most ({file}): {remedy}\n    {}",
                    found.join("\n    ")
                ));
            } else if count < most {
                falls.push(format!("{package} has {count}, and {file} says {most}: let it fall"));
            }
        }
        for package in most.keys().filter(|package| !found.contains_key(*package)) {
            faults.push(format!("{file}: the workspace has no package {package}"));
        }
        (faults, falls)
    }

    fn read(&self, text: &str) -> Result<BTreeMap<String, usize>> {
        let line = |line: &str| {
            let context = || format!("{}: {line:?}", self.file);
            let (package, most) = line.split_once(' ').with_context(context)?;
            Ok((package.to_owned(), most.parse().with_context(context)?))
        };
        text.lines().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_only_falls() {
        let falling = Falling { file: "most.txt", faults: "doc comments", remedy: "mend them" };
        let most = falling.read("a 1\nb 2\n").unwrap();
        let found = |a: &[&str], b: &[&str]| {
            let of = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
            BTreeMap::from([("a".to_owned(), of(a)), ("b".to_owned(), of(b))])
        };
        let (faults, falls) = falling.compared(&most, &found(&["1"], &["1", "2"]));
        assert!(faults.is_empty() && falls.is_empty());
        let (faults, falls) =
            falling.compared(&most, &found(&["f.rs:1: Of it", "f.rs:2: Of"], &[]));
        assert!(
            faults[0].contains("a: 2 doc comments") && faults[0].contains("f.rs:2"),
            "{faults:?}"
        );
        assert!(falls[0].contains("b has 0"), "{falls:?}");
        let (faults, _) = falling.compared(&most, &BTreeMap::from([("a".to_owned(), Vec::new())]));
        assert!(faults[0].contains("no package b"), "{faults:?}");
        assert!(falling.read("a\n").is_err() && falling.read("a many\n").is_err());
    }
}
