//! A new crate outside of the workspace, with the dependencies that the README shows and every
//! program that a reader may copy.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Pages on what one part of Kumiki is for, each with a program in Rust.
pub(crate) const PAGES: [&str; 2] = ["docs/hand-over.md", "docs/start-programs.md"];

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A document of the repository.
pub(crate) fn document(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The code blocks of a language, in order.
pub(crate) fn blocks(markdown: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        let Some(begun) = line.strip_prefix("```") else { continue };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        if begun == language {
            blocks.push(block.join("\n") + "\n");
        }
    }
    blocks
}

/// Programs of the façade to be copied, by their names.
pub(crate) fn examples() -> Vec<String> {
    names(&root().join("lib/kumiki/examples"), "rs")
}

/// Names of files with this end, without it.
pub(crate) fn names(folder: &Path, end: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let those = paths.filter(|path| path.extension().is_some_and(|its| its == end));
    let mut names: Vec<_> =
        those.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Starts a program of the new crate, built from its copy.
pub(crate) fn program(name: &str) -> Command {
    Command::new(built().join(name))
}

/// Runs one to its end, which must be a good one; what it printed.
pub(crate) fn well(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{said}");
    String::from_utf8(stdout).unwrap()
}

/// The folder of its programs: built once, without a warning, as copied.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        // It shares the workspace's target folder, in which most of what it needs is built already.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target");
        let mut cargo =
            Command::new(env::var("CARGO").expect("cargo runs its tests with CARGO set"));
        cargo.args(["build", "--offline", "--quiet"]).current_dir(folder.path());
        cargo.env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        let build = cargo.output().expect("cargo runs");
        let said = String::from_utf8_lossy(&build.stderr);
        assert!(build.status.success() && said.is_empty(), "{}:\n{said}", build.status);
        target.join("debug")
    })
}

fn write(folder: &Path) {
    let (readme, libraries) = (document("README.md"), document("lib/README.md"));
    let dependencies = blocks(&readme, "toml");
    assert_eq!(dependencies.len(), 1, "blocks of toml");
    let shown = "\"kumiki/lib/kumiki\"";
    assert!(dependencies[0].contains(shown), "the README no longer depends on {shown}");
    let dependencies = dependencies[0].replace(shown, &format!("{:?}", root().join("lib/kumiki")));
    let package = "[package]\nname = \"copied-programs\"\nedition = \"2024\"\n\n";
    fs::write(folder.join("Cargo.toml"), format!("{package}{dependencies}")).unwrap();

    let bin = folder.join("src/bin");
    fs::create_dir_all(&bin).unwrap();
    let pages = PAGES.map(document).concat();
    for (of, text) in [("readme", readme + &libraries), ("page", pages)] {
        for (i, program) in blocks(&text, "rust").iter().enumerate() {
            fs::write(bin.join(format!("{of}_{i}.rs")), program).unwrap();
        }
    }
    for name in examples() {
        let from = root().join(format!("lib/kumiki/examples/{name}.rs"));
        fs::copy(from, bin.join(format!("{name}.rs"))).unwrap();
    }
    // The versions that are here already: nothing is downloaded.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
}

#[test]
fn blocks_are_those_of_the_language() {
    let markdown = "a\n```rust\nb\n```\n```console\n$ c\n```\n```rust\nd\n\ne\n```\n";
    assert_eq!(blocks(markdown, "rust"), ["b\n", "d\n\ne\n"]);
    assert_eq!(blocks(markdown, "toml"), [] as [&str; 0]);
}
