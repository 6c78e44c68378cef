//! What documents and doc comments show is there: paths of files, and commands.
//!
//! A path is text in backticks that begins with a folder of the repository, or ends as
//! a source file does; it may leave out folders at its beginning (`copy.md`), and have
//! alternatives (`src/{lint,loom}.rs`). A command is text in backticks, or a line with a
//! prompt in a block of `console`, that begins with `cargo` or `kumiki`. Words in
//! capitals (`NAME`, `FILE`) stand for what a person puts there.

mod commands;
mod known;
mod paths;
mod shown;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::run::{program, read, root};
use commands::Programs;
use paths::Paths;
use shown::Shown;

/// Checks every document and doc comment. The programs are built only if there is a command to ask them for.
pub(crate) fn check() -> Result<()> {
    let files = files()?;
    let known = match known::base()? {
        Some(base) => known::of(&root(), &files, &base)?,
        None => BTreeSet::new(),
    };
    let mut all = all_shown(&files)?;
    all.retain(|(_, Shown { text, .. })| !known.contains(text));
    let programs = match all.iter().any(|(_, it)| commands::asks_a_program(&it.text)) {
        true => Programs::built(false)?,
        false => Programs::unbuilt()?,
    };
    check_by(&programs, &files, &all)
}

fn check_by(programs: &Programs, files: &[String], all: &[(&String, Shown)]) -> Result<()> {
    let paths = Paths::of(files);
    let mut faults = Vec::new();
    for (file, Shown { line, text }) in all {
        let wrong = match commands::is_command(text) {
            true => programs.check(text).err(),
            false => paths.check(text).err(),
        };
        faults.extend(wrong.map(|why| format!("{file}:{line}: `{text}`: {why}")));
    }
    if !faults.is_empty() {
        bail!("{} things that are shown and not there:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(())
}

/// What is under version control, from the root.
fn files() -> Result<Vec<String>> {
    let list = read(&mut program(
        "git",
        ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    ))?;
    let mut files: Vec<_> = list.split('\0').filter(|name| !name.is_empty()).collect();
    // A file that was removed and is not committed yet is listed, too.
    files.retain(|name| root().join(name).exists());
    Ok(files.into_iter().map(str::to_owned).collect())
}

/// Commands and paths that all files show, each with its file.
fn all_shown(files: &[String]) -> Result<Vec<(&String, Shown)>> {
    let mut all = Vec::new();
    for file in files.iter().filter(|file| shown::may_show(file)) {
        let path = root().join(file);
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        all.extend(shown::of_file(file, &text).into_iter().map(|it| (file, it)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page that lists every example, but those for who works on Kumiki.
    const EXAMPLES: &str = "docs/questions.md";
    const OWN: [&str; 1] = ["measure/report/examples/"];

    #[test]
    fn each_example_is_listed_in_one_place() {
        let page = fs::read_to_string(root().join(EXAMPLES)).unwrap();
        let mut listed = 0;
        for file in files().unwrap() {
            let Some((folder, name)) = file.split_once("examples/") else { continue };
            let is_part = name.contains('/') && !name.ends_with("/main.rs");
            if is_part || OWN.contains(&&*format!("{folder}examples/")) {
                continue;
            }
            // From the page's own folder.
            let link = match file.strip_prefix("docs/") {
                Some(below) => format!("]({below})"),
                None => format!("](../{file})"),
            };
            assert!(page.contains(&link), "{EXAMPLES} lacks {file}");
            listed += 1;
        }
        assert!(listed > 20, "{listed}");
    }

    #[test]
    fn what_is_shown_is_there() {
        let files = files().unwrap();
        let all = all_shown(&files).unwrap();
        check_by(&Programs::built(true).unwrap(), &files, &all).unwrap();
    }
}
