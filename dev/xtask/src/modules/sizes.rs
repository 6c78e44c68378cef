//! No crate is larger than a person can know: code lines, which are neither empty nor a comment and
//! not for tests, are counted in all sources of its library and programs.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use syn::Attribute;
use syn::parse::Parser;

use super::tree::{Tree, is_for_tests};
use super::{is_checked, read};
use crate::run::metadata;

/// Code lines of a crate, at most.
const MOST: usize = 8000;

/// Checks every crate of the workspace.
pub(crate) fn check() -> Result<()> {
    let mut faults = Vec::new();
    for package in metadata()?.workspace_packages() {
        let mut files = BTreeSet::new();
        for target in package.targets.iter().filter(|target| is_checked(target)) {
            files.extend(Tree::read(target.src_path.as_std_path(), &read)?.files());
        }
        let lines = files.iter().map(|file| Ok(code_lines(&read(file)?))).sum::<Result<usize>>()?;
        faults.extend(fault(&package.name, lines));
    }
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// What is wrong with a crate of so many code lines.
fn fault(package: &str, lines: usize) -> Option<String> {
    (lines > MOST).then(|| {
        format!(
            "{package} has {lines} code lines, and {MOST} are the most: part it, where its modules \
             point one way"
        )
    })
}

/// Code lines of a source as rustfmt leaves it: an item for tests ends where its indent is met again.
fn code_lines(text: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let word = line.trim_start();
        if word.is_empty() || word.starts_with("//") {
            continue;
        }
        if !is_cfg_of_tests(word) {
            count += 1;
            continue;
        }
        let indent = line.len() - word.len();
        for line in lines.by_ref() {
            let word = line.trim();
            let is_own = line.len() - line.trim_start().len() == indent;
            if is_own && !word.starts_with(['#', '/']) && word.ends_with([';', '}', ',']) {
                break;
            }
        }
    }
    count
}

/// True of an attribute, on a line of its own, whose item is built for tests alone.
fn is_cfg_of_tests(line: &str) -> bool {
    let attributes = || Attribute::parse_outer.parse_str(line);
    line.starts_with("#[cfg(") && attributes().is_ok_and(|all| all.iter().any(is_for_tests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_comments_nor_empty_lines_nor_tests_are_code() {
        let text = "//! A module.\n\nuse a::b;\n\n/// Adds.\nfn add() {\n    // Two.\n    1 + 1\n}\n\n\
                    #[cfg(any(test, fuzzing))]\n#[doc(hidden)]\npub mod made;\n#[cfg(feature = \"x\")]\n\
                    mod kept;\nstruct A {\n    b: u8,\n    #[cfg(test)]\n    c: u8,\n}\n\n#[cfg(test)]\n\
                    mod tests {\n    fn far() {\n    }\n}\nconst C: u8 = 1;\n";
        // A use, three of a function, two of a module with its condition, three of a structure, a constant.
        assert_eq!(code_lines(text), 10);
    }

    #[test]
    fn a_crate_that_is_too_large_is_named_with_its_lines() {
        assert_eq!(fault("kumiki-x", MOST), None);
        let said = fault("kumiki-x", MOST + 1).unwrap();
        assert!(said.starts_with("kumiki-x has 8001 code lines, and 8000 are the most"), "{said}");
    }

    #[test]
    fn this_crate_is_counted_as_it_is_built() {
        let root = crate::run::root().join("dev/xtask/src/main.rs");
        let files = Tree::read(&root, &read).unwrap().files();
        assert!(files.iter().any(|file| file.ends_with("modules/sizes.rs")), "{files:?}");
        assert!(!files.iter().any(|file| file.ends_with("modules/tests.rs")), "{files:?}");
    }
}
