//! The programs in C and Python of `docs/questions.md`, as copied. Which there are the page says, and
//! `lib/kumiki/tests/kumiki/questions.rs` compares.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::installed::{dynamic, prefix, root, scratch, well};
use crate::python::python;

/// Files of a folder of programs.
fn programs(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder}: no program");
    files
}

/// Exit status, standard output and error.
fn run(mut command: Command, words: &[&str]) -> (Option<i32>, String, String) {
    let output = command.args(words).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn the_programs_in_c_do_what_the_page_says() {
    for source in programs("lib/capi/examples") {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let program = scratch().join(format!("question-{name}"));
        let mut compiler = Command::new("gcc");
        compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(&source);
        well(compiler.args(dynamic()));
        let program = || {
            let mut command = Command::new(&program);
            command.env("LD_LIBRARY_PATH", prefix().join("lib"));
            command
        };
        match name {
            "memory_limit" => memory_limit(program),
            _ => panic!("{name}: no test runs it"),
        }
    }
}

#[test]
fn the_programs_in_python_do_what_the_page_says() {
    for source in programs("lib/python/examples") {
        let program = || {
            let mut command = python();
            command.arg(&source);
            command
        };
        match source.file_stem().unwrap().to_str().unwrap() {
            "memory_limit" => memory_limit(program),
            "time_limit" => time_limit(program),
            name => panic!("{name}: no test runs it"),
        }
    }
}

#[test]
fn the_program_in_python_of_the_page_on_starting_programs_runs() {
    let page = fs::read_to_string(root().join("docs/start-programs.md")).unwrap();
    let blocks: Vec<&str> = page.split("\n```python\n").skip(1).collect();
    assert_eq!(blocks.len(), 1, "one program in Python");
    let program = blocks[0].split("\n```").next().unwrap();
    let (code, _, talk) = run(python(), &["-c", program]);
    assert_eq!(code, Some(0), "{talk}");
}

fn memory_limit(program: impl Fn() -> Command) {
    let (code, said, talk) = run(program(), &["64", "sh", "-c", "ulimit -v"]);
    assert_eq!((code, &*said), (Some(0), "65536\n"), "{talk}");
    let greedy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"];
    let (code, _, talk) = run(program(), &[&["64"], &greedy[..]].concat());
    assert_eq!(code, Some(1), "{talk}");
    let (code, _, talk) = run(program(), &[&["1024"], &greedy[..]].concat());
    assert_eq!(code, Some(0), "{talk}");
    let (code, _, talk) = run(program(), &["64", "/nowhere/at/all"]);
    assert!(code != Some(0) && talk.contains("No such file"), "{talk}");
}

fn time_limit(program: impl Fn() -> Command) {
    let (code, said, talk) = run(program(), &["60", "echo", "in time"]);
    assert_eq!((code, &*said), (Some(0), "in time\n"), "{talk}");
    // The shell ends at once; its child holds the pipe.
    let (code, _, talk) = run(program(), &["0.2", "sh", "-c", "sleep 1000 & echo begun"]);
    assert_eq!(code, Some(1), "{talk}");
    assert!(talk.contains("ended after 0.2 s, with all that it had started"), "{talk}");
}
