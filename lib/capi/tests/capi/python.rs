//! The package for Python, on the libkumiki that is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installed::{prefix, root, scratch, well};

/// Debian's, which has its tests, before any other.
pub(crate) fn python() -> Command {
    let debian = "/usr/bin/python3";
    let mut python = Command::new(if Path::new(debian).exists() { debian } else { "python3" });
    python.env("PYTHONPATH", root().join("lib/python")).env("KUMIKI_LIBRARY", library());
    // What it compiles is nothing for the tree.
    python.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(scratch());
    python
}

fn library() -> PathBuf {
    prefix().join("lib/libkumiki.so")
}

#[test]
fn python_has_what_subprocess_lacks() {
    well(python().arg(root().join("lib/python/tests/test_kumiki.py")));
}

#[test]
fn a_child_is_as_one_of_subprocess() {
    well(python().arg(root().join("lib/python/tests/test_same.py")));
}

#[test]
fn where_something_is_refused_a_child_starts_as_one_of_subprocess() {
    well(python().arg(root().join("lib/python/tests/test_refused.py")));
}

/// Newer ones, whose asyncio is another: those that are there.
fn newer() -> impl Iterator<Item = Command> {
    ["python3.12", "python3.13", "python3.14"].into_iter().filter_map(|name| {
        let looked = Command::new(name).args(["-c", ""]).output();
        if !looked.is_ok_and(|output| output.status.success()) {
            println!("there is no {name}: passed over");
            return None;
        }
        let mut newer = Command::new(name);
        for (variable, value) in python().get_envs() {
            newer.env(variable, value.unwrap_or_default());
        }
        Some(newer)
    })
}

#[test]
fn asyncio_has_it_too() {
    for mut python in std::iter::once(python()).chain(newer()) {
        well(python.arg(root().join("lib/python/tests/test_aio.py")));
    }
}

/// What every version of Python has otherwise: its records of attributes, its forks, its multiprocessing.
fn each_python(test: &str) {
    for mut python in std::iter::once(python()).chain(newer()) {
        well(python.arg(root().join("lib/python/tests").join(test)));
    }
}

#[test]
fn many_files_are_as_one_by_one() {
    each_python("test_files.py");
}

#[test]
fn a_child_of_a_template_is_as_new() {
    each_python("test_template.py");
}

#[test]
fn templates_stand_forks_and_want_of_descriptors() {
    each_python("test_template_edges.py");
}

#[test]
fn multiprocessing_has_it_as_a_start_method() {
    each_python("test_mp.py");
}

#[test]
fn a_loader_of_data_holds_what_one_by_spawn_holds() {
    each_python("test_loader.py");
}

#[test]
fn a_program_that_is_not_changed_has_it() {
    each_python("test_instead.py");
}

#[test]
fn programs_to_copy_run() {
    well(python().arg(root().join("lib/python/tests/test_programs.py")));
}

#[test]
fn pytest_has_it_as_a_plugin() {
    well(python().arg(root().join("lib/python/tests/test_pytest_plugin.py")));
}

#[test]
fn its_types_name_what_it_takes() {
    well(python().arg(root().join("lib/python/tests/test_types.py")));
}

#[test]
fn cpython_s_own_tests_of_subprocess_hold() {
    well(python().arg(root().join("lib/python/tests/test_cpython.py")));
}

/// A clone of its own, of which nothing is committed but the package's folder.
fn clone(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    std::fs::create_dir(&tree).unwrap();
    let listed = well(
        git(root())
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .arg("lib/python"),
    );
    for file in listed.lines() {
        let to = tree.join(file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(root().join(file), to).unwrap();
    }
    std::fs::copy(root().join(".gitignore"), tree.join(".gitignore")).unwrap();
    well(git(&tree).args(["init", "--quiet"]));
    well(git(&tree).args(["add", "."]));
    tree
}

fn git(tree: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(tree);
    git
}

/// With what Debian has: nothing is fetched.
fn pip(asked: &str) -> Command {
    let mut pip = python();
    pip.args(["-m", "pip", asked, "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]);
    pip
}

/// Runs it without the tree's package and library; what it says.
fn imported(from: &Path) -> String {
    let mut import = python();
    import.env_remove("KUMIKI_LIBRARY").env("PYTHONPATH", from);
    // As an installed package's: the lines of .pth files are run.
    let script = "import site, sys; site.addsitedir(sys.argv[1]); import kumiki; \
                  print(kumiki.__file__, kumiki.check_output(['echo', 'fine']))";
    well(import.args(["-c", script]).arg(from))
}

/// What git would show: nothing.
fn untouched(tree: &Path) {
    let status = well(git(tree).args(["status", "--short", "--untracked-files=all"]));
    let added = status.lines().filter(|line| !line.starts_with("A  ")).collect::<Vec<_>>();
    assert!(added.is_empty(), "{added:?}");
}

#[test]
fn pip_installs_it_from_a_clone_and_leaves_that_as_it_was() {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let (tree, target) = (clone(folder.path()), folder.path().join("target"));
    well(pip("install").arg("--target").arg(&target).arg(tree.join("lib/python")));
    let said = imported(&target);
    assert!(said.contains(target.to_str().unwrap()) && said.contains("b'fine\\n'"), "{said}");
    untouched(&tree);
}

#[test]
fn an_editable_install_imports_the_clone() {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let (tree, base) = (clone(folder.path()), folder.path().join("base"));
    let mut pip = pip("install");
    pip.env_remove("PYTHONPATH").arg("--prefix").arg(&base).arg("--editable");
    well(pip.arg(tree.join("lib/python")));
    let packages = well(Command::new("find").arg(&base).args(["-name", "kumiki-*.dist-info"]));
    let packages = Path::new(packages.trim()).parent().expect("an installed package").to_owned();
    let said = imported(&packages);
    assert!(said.contains(tree.to_str().unwrap()) && said.contains("b'fine\\n'"), "{said}");
    untouched(&tree);
}

#[test]
fn a_wheel_is_for_any_python() {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let tree = clone(folder.path());
    well(pip("wheel").arg("--wheel-dir").arg(folder.path()).arg(tree.join("lib/python")));
    let wheel = well(Command::new("find").arg(folder.path()).args(["-name", "*.whl"]));
    assert!(wheel.contains("-py3-none-linux_"), "{wheel}");
    let script = "import sys, zipfile; it = zipfile.ZipFile(sys.argv[1]); print(it.namelist()); \
                  print(*(it.read(n).decode() for n in it.namelist() if n.endswith(('METADATA', 'entry_points.txt'))))";
    let within = well(python().args(["-c", script, wheel.trim()]));
    for part in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "_popen.pyi",
        "py.typed",
        "Author",
        "Project-URL",
        "pytest11",
        "kumiki_pytest.py",
    ] {
        assert!(within.contains(part), "{part}: {within}");
    }
}
