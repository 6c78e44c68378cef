//! Each door's README lists its crates, and what each of them uses, as their manifests have it.
//!
//! A door is a top folder of crates: `lib`, `measure`, `node`, `apps`, `dev`. In its table a crate
//! is named by its folder, and so is what it uses of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::run::{door, metadata, root};

/// The doors, each with a README.
const DOORS: [&str; 5] = ["lib", "measure", "node", "apps", "dev"];

/// Checks every door's table.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata()?;
    let mut faults = Vec::new();
    for name in DOORS {
        let file = format!("{name}/README.md");
        let readme =
            fs::read_to_string(root().join(&file)).with_context(|| format!("reading {file}"))?;
        let there = uses(&metadata, |package| door(package) == name);
        faults.extend(compared(&file, &rows(&readme), &there));
    }
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// A crate by its folder, and the folders of those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The table's rows: of each the first cell's word, and the words of the last.
fn rows(readme: &str) -> Uses {
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').collect();
        let (first, last) = (*cells.first()?, *cells.last()?);
        Some((words(first).next()?.to_owned(), words(last).map(str::to_owned).collect()))
    };
    readme.lines().filter_map(|line| row(line.trim())).collect()
}

/// Words of a cell that stand in backticks.
fn words(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Table that the manifests of the packages that `chosen` says yes to have; tests may use anything.
fn uses(metadata: &Metadata, chosen: impl Fn(&Package) -> bool) -> Uses {
    let packages = metadata.workspace_packages();
    let folder = |name: &str| {
        let package = packages.iter().find(|package| *package.name == name)?;
        Some(below_its_door(package))
    };
    let of = |package: &&Package| {
        let built = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        let used = built.filter_map(|dependency| folder(&dependency.name)).collect();
        (below_its_door(package), used)
    };
    packages.iter().copied().filter(|package| chosen(package)).map(|package| of(&package)).collect()
}

/// A package's folder without its door: `spawn/wire`.
fn below_its_door(package: &Package) -> String {
    let folder = package.manifest_path.parent().map(|folder| folder.as_std_path());
    let folder = folder.and_then(|folder| folder.strip_prefix(root()).ok());
    let parts = folder.into_iter().flat_map(|folder| folder.iter().skip(1));
    parts.map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Where a table and the manifests differ, a sentence each.
fn compared(file: &str, table: &Uses, there: &Uses) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, used) in there {
        // A crate within another's folder is told of by that one's row.
        if name.contains('/') {
            continue;
        }
        let list = |of: &BTreeSet<String>| {
            of.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        };
        match table.get(name) {
            None => faults.push(format!("{file}: no row of `{name}`")),
            Some(said) if said != used => faults.push(format!(
                "{file}: `{name}` uses {}, and its row says {}",
                list(used),
                list(said)
            )),
            Some(_) => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(&str, &[&str])]) -> Uses {
        let set = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        rows.iter().map(|(name, words)| ((*name).to_owned(), set(words))).collect()
    }

    #[test]
    fn a_row_that_is_missing_or_wrong_is_a_fault() {
        let table =
            rows("| crate | what | uses |\n|---|---|---|\n| `a` | `x`, an A | `b`, `c` |\n");
        assert_eq!(table, of(&[("a", &["b", "c"])]));
        assert_eq!(compared("R", &table, &of(&[("a", &["b", "c"]), ("a/in", &[])])), [""; 0]);
        let faults = compared("R", &table, &of(&[("a", &["b"]), ("d", &[])]));
        assert_eq!(faults, ["R: `a` uses `b`, and its row says `b`, `c`", "R: no row of `d`"]);
    }

    #[test]
    fn each_door_has_crates() {
        let metadata = metadata().unwrap();
        for name in DOORS {
            assert!(!uses(&metadata, |package| door(package) == name).is_empty(), "{name}");
        }
    }
}
