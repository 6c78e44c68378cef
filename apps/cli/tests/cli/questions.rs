//! The programs for the shell of `docs/questions.md`, as copied. Which there are the page says, and
//! `lib/kumiki/tests/kumiki/questions.rs` compares.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Home, says, text};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");

#[test]
fn the_programs_for_the_shell_do_what_the_page_says() {
    let mut run = 0;
    for entry in fs::read_dir(EXAMPLES).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "sh") {
            continue;
        }
        match path.file_stem().unwrap().to_str().unwrap() {
            "commit-slower" => commit_slower(&path),
            "slow-calls" => slow_calls(&path),
            name => panic!("{name}: no test runs it"),
        }
        run += 1;
    }
    assert!(run > 0, "{EXAMPLES}: no program");
}

/// A shell that finds `kumiki`, as where it is installed.
fn sh(home: &Home, script: &Path, words: &[&str]) -> Command {
    let mut command = home.run_by("sh", &[&[script.to_str().unwrap()], words].concat());
    let kumiki = Path::new(env!("CARGO_BIN_EXE_kumiki")).parent().unwrap().to_str().unwrap();
    command.env("PATH", format!("{kumiki}:{}", std::env::var("PATH").unwrap()));
    command
}

/// Exit status and what was printed, on both streams.
fn ended(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

fn commit_slower(script: &Path) {
    let home = Home::new();
    let git = |words: &[&str]| {
        let by = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let (code, said) = ended(home.run_by("git", &[&by, words].concat()));
        assert_eq!(code, Some(0), "git {words:?}: {said}");
        said
    };
    git(&["init", "--quiet"]);
    for seconds in ["0.1", "0.02", "0.1"] {
        home.write("app", format!("sleep {seconds}\n"));
        git(&["add", "app"]);
        git(&["commit", "--quiet", "-m", seconds]);
    }
    let lines = ["cp app built", "sh built"];
    let (code, said) = ended(sh(&home, script, &[&["HEAD~1"], &lines[..]].concat()));
    assert_eq!(code, Some(1), "{said}");
    says(&said, &["B is slower: "]);
    git(&["checkout", "--quiet", "HEAD~1"]);
    let (code, said) = ended(sh(&home, script, &[&["HEAD~1"], &lines[..]].concat()));
    assert_eq!(code, Some(0), "{said}");
    // What cannot be built is an error, and nothing is left.
    let (code, said) = ended(sh(&home, script, &["HEAD~1", "false", "sh built"]));
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(fs::read_dir(home.path("tmp")).unwrap().count(), 0);
    assert_eq!(ended(sh(&home, script, &[])).0, Some(2));
}

fn slow_calls(script: &Path) {
    let home = Home::new();
    let (code, said) = ended(sh(&home, script, &["entry.", "--time", "1"]));
    assert_eq!(code, Some(0), "{said}");
    says(&said, &["A is @", "rows compared at 5 %", "entry."]);
}
