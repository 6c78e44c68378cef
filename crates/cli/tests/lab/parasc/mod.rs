//! Parallel system calls inside the kernel, in machines of the lab with the module loaded.
//! What its header says is tried by C programs, which also show that it can be used from C.

mod suite;

use std::path::{Path, PathBuf};
use std::process::Command;

use kumiki_parasc::Backend;

use super::Labs;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/parasc");
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel");

/// The program of this C source.
fn compiled(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    cc.arg(format!("-I{KERNEL}/uapi")).arg(format!("{HERE}/{name}.c")).arg("-o").arg(&program);
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a C program in a machine; what it prints.
fn runs(labs: &Labs, words: &[&str], name: &str, then: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), name);
    let program = program.to_str().unwrap();
    let line = format!("./{name} && {then}");
    let run = ["lab", "run", "--in", program, "--timeout", "240"];
    let all = [&run[..], words, &["--", "sh", "-c", &line]].concat();
    // A fault in the kernel's log is a failure, too.
    labs.gives(0, &all).0
}

#[test]
fn the_module_does_as_its_header_says() {
    let Some(labs) = Labs::new() else { return };
    let machine = ["--module", "parasc", "--cpus", "2"];
    let said = runs(&labs, &[&machine[..], &["--kernel", "6.1"]].concat(), "raw", "rmmod parasc");
    assert!(said.contains("a batch by one entry: as it should"), "{said}");
    assert!(!said.contains("not so"), "{said}");
    let said = runs(&labs, &[&machine[..], &["--kernel", "6.12"]].concat(), "raw", "rmmod parasc");
    assert!(said.contains("a batch by one entry: as it should"), "{said}");
}

#[test]
fn programs_see_the_same_of_both_backends() {
    suite::behaves(Backend::User);
    let Some(labs) = Labs::new() else { return };
    let own = std::env::current_exe().unwrap();
    let copied = format!("{}:suite", own.display());
    let run = ["lab", "run", "--module", "parasc", "--cpus", "2", "--timeout", "300"];
    let test = ["./suite", "--ignored", "--exact", "parasc::suite::in_a_machine", "--nocapture"];
    let (said, _) = labs.gives(0, &[&run[..], &["--in", &copied, "--"], &test].concat());
    assert!(said.contains("1 passed"), "{said}");
}

/// What is more than a person can read at once is not understood.
#[test]
fn the_module_is_short() {
    let files = std::fs::read_dir(format!("{KERNEL}/parasc")).unwrap().flatten();
    let is_code = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "c" || end == "h")
            && !path.ends_with("calls.h")
            && !path.to_string_lossy().ends_with(".mod.c")
    };
    let texts = files.map(|file| file.path()).filter(is_code);
    let lines: usize = texts.map(|path| code(&std::fs::read_to_string(path).unwrap())).sum();
    assert!((300..=1200).contains(&lines), "{lines} lines");
}

/// Lines that are not empty, nor comment alone.
fn code(text: &str) -> usize {
    let (mut lines, mut in_comment) = (0, false);
    for line in text.lines().map(str::trim) {
        let begins = line.starts_with("/*");
        let is_comment = in_comment || begins || line.starts_with("//");
        lines += usize::from(!is_comment && !line.is_empty());
        in_comment = (in_comment || begins) && !line.contains("*/");
    }
    lines
}
