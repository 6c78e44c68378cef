//! The programs in C and Python that the READMEs show.

use std::fs;
use std::process::Command;

use crate::installed::{dynamic, prefix, root, scratch, well};
use crate::python::python;

/// The only block of a language in this file.
fn block(file: &str, language: &str) -> String {
    let readme = fs::read_to_string(root().join(file)).unwrap();
    let (_, block) = readme.split_once(&format!("```{language}\n")).expect("the README has it");
    block.split_once("```\n").expect("it ends").0.to_owned()
}

#[test]
fn the_c_program_starts_one_with_its_limit() {
    let (source, program) = (scratch().join("readme.c"), scratch().join("readme-c"));
    fs::write(&source, block("lib/README.md", "c")).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    well(compiler.args(dynamic()));
    let said = well(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")));
    assert_eq!(said, "64\n");
}

#[test]
fn the_python_program_starts_one_with_its_limit() {
    let said = well(python().args(["-c", &block("README.md", "python")]));
    assert_eq!(said, "b'64\\n'\n");
}
