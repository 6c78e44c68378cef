//! Commands that were asked for before: those that documents showed where the branch began, if documents
//! alone have changed since. Who moves a comma need not build the programs for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{commands, shown};
use crate::run::{program, read, succeeds};

/// Commit where the branch began, if that is known here. In CI all is asked.
pub(super) fn base() -> Result<Option<String>> {
    let words = ["merge-base", "HEAD", "origin/HEAD"];
    if std::env::var_os("CI").is_some() || !succeeds(&mut program("git", words)) {
        return Ok(None);
    }
    Ok(Some(read(&mut program("git", words))?.trim().to_owned()))
}

/// The commands in the files of a tree that need no answer of a program, `base` being where its branch began.
pub(super) fn of(tree: &Path, files: &[String], base: &str) -> Result<BTreeSet<String>> {
    let git = |words: &[&str]| {
        let mut command = program("git", words.iter().copied());
        read(command.current_dir(tree))
    };
    let names = |text: String| -> BTreeSet<String> {
        text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let new = names(git(&["ls-files", "-z", "--others", "--exclude-standard"])?);
    let mut changed = names(git(&["diff", "--name-only", "-z", "--no-renames", base])?);
    changed.extend(new.iter().cloned());
    if changed.iter().any(|name| !name.ends_with(".md")) {
        return Ok(BTreeSet::new());
    }
    let old = names(git(&["ls-tree", "-r", "--name-only", "-z", base])?);
    let mut known = BTreeSet::new();
    for name in files.iter().chain(&changed).filter(|name| old.contains(*name)) {
        let text = match changed.contains(name) {
            true => git(&["show", &format!("{base}:{name}")])?,
            false => fs::read_to_string(tree.join(name))
                .or_else(|error| match error.kind() {
                    // A picture, say, which shows no command.
                    std::io::ErrorKind::InvalidData => Ok(String::new()),
                    _ => Err(error),
                })
                .with_context(|| format!("reading {name}"))?,
        };
        let shown = shown::of_file(name, &text).into_iter().map(|it| it.text);
        known.extend(shown.filter(|text| commands::asks_a_program(text)));
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(tree: &Path, words: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
        let done = command.args(words).current_dir(tree).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn what_stood_there_is_not_asked_again_and_what_is_new_is() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        let write = |name: &str, text: &str| fs::write(tree.join(name), text).unwrap();
        git(tree, &["init", "--quiet", "--initial-branch=main"]);
        write("page.md", "`kumiki doctor`, then `kumiki-kv --old`\n");
        write("code.rs", "//! `kumiki measure`\n");
        git(tree, &["add", "."]);
        git(tree, &["commit", "--quiet", "-m", "first"]);
        let files = ["page.md", "code.rs", "other.md"].map(str::to_owned);
        let known = || -> Vec<String> { of(tree, &files, "main").unwrap().into_iter().collect() };
        let all = ["kumiki doctor", "kumiki measure", "kumiki-kv --old"];
        assert_eq!(known(), all);
        // A comma less, a command less, and one that nobody has asked.
        write("page.md", "`kumiki doctor` then `kumiki --new`\n");
        write("other.md", "`kumiki --newer`\n");
        assert_eq!(known(), all);
        // A program may have changed.
        write("code.rs", "//! `kumiki measure`.\n");
        assert_eq!(known(), [""; 0]);
        git(tree, &["checkout", "--quiet", "code.rs"]);
        write("Cargo.toml", "");
        assert_eq!(known(), [""; 0]);
    }
}
