//! The programs that the README and that of the libraries show compile and run in a new crate, as copied.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The code blocks of a language, in order.
fn blocks(markdown: &str, language: &str) -> Vec<String> {
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

/// A crate of these programs in `folder`, outside of the workspace. What it depends on
/// is as the README has it, but for the path to this crate.
fn write_crate(folder: &Path, dependencies: &str, programs: &[String]) {
    let facade = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shown = "\"kumiki/lib/kumiki\"";
    assert!(dependencies.contains(shown), "the README no longer depends on {shown}");
    let dependencies = dependencies.replace(shown, &format!("{facade:?}"));
    let package = "[package]\nname = \"readme-programs\"\nedition = \"2024\"\n\n";
    fs::write(folder.join("Cargo.toml"), format!("{package}{dependencies}")).unwrap();
    let bin = folder.join("src/bin");
    fs::create_dir_all(&bin).unwrap();
    for (i, program) in programs.iter().enumerate() {
        fs::write(bin.join(format!("readme_{i}.rs")), program).unwrap();
    }
    // The versions that are here already: nothing is downloaded.
    fs::copy(facade.join("../../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
}

/// Cargo in that crate. It shares the workspace's target folder, in which most of what
/// it needs is built already.
fn cargo(folder: &Path, words: &[&str]) -> Output {
    let mut cargo = Command::new(env::var("CARGO").expect("cargo runs its tests with CARGO set"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target");
    cargo.args(words).args(["--offline", "--quiet"]).current_dir(folder);
    cargo.env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    cargo.output().expect("cargo runs")
}

#[test]
fn the_readme_s_programs_run_in_a_new_crate_as_copied() {
    let [readme, libraries] = ["../../README.md", "../README.md"].map(|file| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"))
    });
    let readme = readme + &libraries;
    let (dependencies, programs) = (blocks(&readme, "toml"), blocks(&readme, "rust"));
    assert_eq!((dependencies.len(), programs.len()), (1, 5), "blocks of toml and of Rust");
    let folder = tempfile::tempdir().unwrap();
    write_crate(folder.path(), &dependencies[0], &programs);

    let build = cargo(folder.path(), &["build"]);
    let said = String::from_utf8_lossy(&build.stderr);
    // As copied means without a warning, too.
    assert!(build.status.success() && said.is_empty(), "{}:\n{said}", build.status);
    let printed = [0, 1, 2, 3, 4].map(|i| {
        let run = cargo(folder.path(), &["run", "--bin", &format!("readme_{i}")]);
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "program {i}: {}\n{said}", run.status);
        String::from_utf8(run.stdout).unwrap()
    });
    assert_eq!(printed[0], "4999950000\n");
    assert!(printed[3].ends_with(" bytes in all\n"), "{}", printed[3]);
    assert_eq!(printed[4], "");
    for printed in &printed[1..3] {
        // Process 1 is always there, and never all of them.
        let taken = printed.strip_suffix(" of 1000 process ids are taken\n");
        let taken: u32 = taken.expect(printed).parse().unwrap();
        assert!((1..1000).contains(&taken), "{printed}");
    }
}

#[test]
fn blocks_are_those_of_the_language() {
    let markdown = "a\n```rust\nb\n```\n```console\n$ c\n```\n```rust\nd\n\ne\n```\n";
    assert_eq!(blocks(markdown, "rust"), ["b\n", "d\n\ne\n"]);
    assert_eq!(blocks(markdown, "toml"), [] as [&str; 0]);
}
