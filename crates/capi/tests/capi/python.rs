//! The package for Python, on the libkumiki that is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{prefix, root, scratch, well};

/// Debian's, which has its tests, before any other.
fn python() -> Command {
    let debian = "/usr/bin/python3";
    let mut python = Command::new(if Path::new(debian).exists() { debian } else { "python3" });
    python.env("PYTHONPATH", root().join("python")).env("KUMIKI_LIBRARY", library());
    // What it compiles is nothing for the tree.
    python.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(scratch());
    python
}

fn library() -> PathBuf {
    prefix().join("lib/libkumiki.so")
}

#[test]
fn python_has_what_subprocess_lacks() {
    well(python().arg(root().join("python/tests/test_kumiki.py")));
}

#[test]
fn cpython_s_own_tests_of_subprocess_hold() {
    well(python().arg(root().join("python/tests/test_cpython.py")));
}

/// From a copy of the tree's folder: it is built beside its sources. With what Debian has,
/// nothing is fetched.
#[test]
fn pip_installs_it_from_the_tree() {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let (copy, target) = (folder.path().join("python"), folder.path().join("target"));
    well(Command::new("cp").arg("-r").arg(root().join("python")).arg(&copy));
    let mut pip = python();
    pip.args(["-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]);
    well(pip.args(["--no-index", "--target"]).arg(&target).arg(&copy));
    let mut import = python();
    import.env_remove("KUMIKI_LIBRARY").env("PYTHONPATH", &target);
    let script = "import kumiki; print(kumiki.__file__, kumiki.check_output(['echo', 'fine']))";
    let said = well(import.args(["-c", script]));
    assert!(said.contains(target.to_str().unwrap()) && said.contains("b'fine\\n'"), "{said}");
}
