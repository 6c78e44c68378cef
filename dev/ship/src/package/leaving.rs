//! What a crate's sources read by a path that leaves its folder, which a packed crate lacks. A link in the
//! folder is followed when it is packed.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::Package;

use crate::run::{program, read};

/// Words before a path, which is of the file's folder.
const BEFORE: [&str; 3] = ["#[path = \"", "include_str!(\"", "include_bytes!(\""];

/// Lists these paths, a sentence each.
pub(super) fn faults(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let folder = folder.as_std_path();
    let mut list = program("git", ["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = read(list.arg("*.rs").current_dir(folder))?;
    let mut faults = Vec::new();
    for file in list.lines().map(|file| folder.join(file)).filter(|file| file.is_file()) {
        let text =
            fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let inside = file.strip_prefix(folder).context("it was found there")?;
        faults.extend(leaving(inside, &text).map(|path| {
            format!("{}: {path} is not packed with {}: link to it", file.display(), package.name)
        }));
    }
    Ok(faults)
}

/// Those in the text of this file of a crate.
fn leaving<'a>(file: &'a Path, text: &'a str) -> impl Iterator<Item = &'a str> {
    let paths = BEFORE.iter().flat_map(move |before| {
        text.split(before).skip(1).filter_map(|rest| rest.split('"').next())
    });
    paths.filter(move |path| {
        let whole = file.parent().unwrap_or(Path::new("")).join(path);
        let mut at = PathBuf::new();
        whole.components().any(|part| match part {
            Component::ParentDir => !at.pop(),
            part => {
                at.push(part);
                false
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_crate_is_named() {
        let text = concat!(
            "#[path",
            " = \"../child/mod.rs\"]\nmod child;\n#[path",
            " = \"../../../sys/a.rs\"]\nmod a;\ninclude_str!",
            "(\"../../../up.h\")",
        );
        let leaving: Vec<_> = leaving(Path::new("tests/x/main.rs"), text).collect();
        assert_eq!(leaving, ["../../../sys/a.rs", "../../../up.h"]);
    }
}
