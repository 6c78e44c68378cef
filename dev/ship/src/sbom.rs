//! What each program is made of, for who must know which crates of others run: CycloneDX's lists.
//!
//! A program is built with the list of its crates in it (cargo-auditable). The list beside it is read out of
//! the program as it is shipped: what is not in the program is not in the list.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::install::{place_of, version};
use crate::run::{program, read};
use crate::tool;

/// Program that reads the list out of another one.
const READER: &str = "auditable2cdx";

/// Has what makes the lists, and what reads them, before long work.
pub(super) fn ready() -> Result<()> {
    tool::subcommand("auditable", "cargo-auditable")?;
    tool::in_path(READER)
}

/// Writes `NAME-VERSION-TARGET.cdx.json` into `folder` for each of these programs of a tree.
pub(super) fn write<'a>(
    tree: &Path,
    names: impl Iterator<Item = &'a str>,
    target: &str,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let version = version()?;
    names
        .map(|name| {
            let list = read(program(READER, [""; 0]).arg(tree.join(place_of(name))))?;
            checked(&list).with_context(|| format!("the list of {name}'s crates"))?;
            let to = folder.join(format!("{name}-{version}-{target}.cdx.json"));
            fs::write(&to, list).with_context(|| format!("writing {}", to.display()))?;
            Ok(to)
        })
        .collect()
}

/// Refuses a list that is none of a program of ours.
fn checked(list: &str) -> Result<()> {
    let list: Value = serde_json::from_str(list).context("it is no JSON")?;
    ensure!(list["bomFormat"] == "CycloneDX", "it is none of CycloneDX: {}", list["bomFormat"]);
    let names = list["components"].as_array().into_iter().flatten();
    let names: Vec<_> = names.filter_map(|component| component["name"].as_str()).collect();
    ensure!(names.contains(&"rustix"), "a crate that each of them uses is missing: {names:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_crates_is_refused() {
        let of = |components: &str| {
            checked(&format!(r#"{{"bomFormat":"CycloneDX","components":[{components}]}}"#))
        };
        of(r#"{"name":"rustix"},{"name":"libc"}"#).unwrap();
        let error = of(r#"{"name":"libc"}"#).unwrap_err().to_string();
        assert!(error.contains("missing") && error.contains("libc"), "{error}");
        assert!(checked("{}").is_err() && checked("").is_err());
    }
}
