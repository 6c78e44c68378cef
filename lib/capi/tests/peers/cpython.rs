//! CPython's tests of subprocess, of asyncio and of multiprocessing, by the package's names and under `python -m kumiki`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{folder, library, root, said, well};
use crate::way::Way;

/// Debian's, which has its tests.
const PYTHON: &str = "/usr/bin/python3";

/// A copy of the package with the library, for other users to read.
fn package(within: &Path) -> PathBuf {
    let copy = within.join("python");
    well(Command::new("cp").arg("-rL").arg(root().join("lib/python")).arg(&copy));
    fs::copy(library("libkumiki_c.so"), copy.join("kumiki/libkumiki.so")).unwrap();
    well(Command::new("chmod").args(["-R", "a+rX"]).arg(&copy));
    copy
}

fn hold(args: &[&str], script: &str) {
    hold_by(&Way::all(), args, script);
}

fn hold_by(ways: &[Way], args: &[&str], script: &str) {
    let folder = folder();
    let copy = package(folder.path());
    let mut faults = String::new();
    for way in ways {
        // Where it runs it writes.
        let scratch = folder.path().join(format!("{}-{}", way.by_server, way.other));
        fs::create_dir(&scratch).unwrap();
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o777)).unwrap();
        let script = copy.join("tests").join(script);
        let pythonpath = format!("PYTHONPATH={}", copy.display());
        let home = format!("HOME={}", scratch.display());
        let mut line = vec![&*pythonpath, &home, "PYTHONDONTWRITEBYTECODE=1"];
        line.extend(["--unset=KUMIKI_LIBRARY", PYTHON, script.to_str().unwrap()]);
        // An option of env comes before variables.
        line.sort_by_key(|word| !word.starts_with("--unset"));
        let by_server = if way.by_server { &["--by-server"][..] } else { &[] };
        line.extend(args.iter().chain(by_server));
        let output = way.run(Path::new("/usr/bin/env"), &line, &scratch);
        println!("{way}: {}", String::from_utf8_lossy(&output.stdout).trim());
        if !output.status.success() {
            faults += &format!("{way}:\n{}\n", said(&output));
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn cpython_s_tests_of_subprocess_hold() {
    hold(&[], "test_cpython.py");
}

#[test]
fn cpython_s_tests_of_asyncio_s_subprocesses_hold() {
    hold(&["--asyncio"], "test_cpython.py");
}

/// Debian's, and newer ones that are there with CPython's tests.
fn pythons() -> impl Iterator<Item = &'static str> {
    [PYTHON, "python3.12", "python3.13", "python3.14"].into_iter().filter(|python| {
        let asked = ["-c", "import sys, test.test_subprocess, test._test_multiprocessing"];
        let looked = Command::new(python).args(asked).output();
        let is_there = looked.is_ok_and(|output| output.status.success());
        if !is_there {
            println!("there is no {python} with CPython's tests: passed over");
        }
        is_there
    })
}

/// PyTorch, as Debian has it for its own Python: for the processor alone, which takes no gigabytes of a driver's.
#[test]
#[ignore = "PyTorch is half a gigabyte: `cargo xtask test long`, which installs it, after a change to `kumiki.mp`"]
fn a_data_loader_of_pytorch_holds_what_one_by_spawn_holds() {
    let folder = folder();
    let copy = package(folder.path());
    let run = |words: &[&str]| {
        let mut python = Command::new("timeout");
        python.args(["--kill-after=5", "900", PYTHON]).args(words).current_dir(folder.path());
        python.env("PYTHONPATH", &copy).env("PYTHONDONTWRITEBYTECODE", "1");
        python.env_remove("KUMIKI_LIBRARY").output().unwrap()
    };
    let there = run(&["-c", "import torch; print('PyTorch', torch.__version__)"]);
    if !there.status.success() {
        println!(
            "skipped: {PYTHON} has no PyTorch (Debian's package python3-torch): {}",
            said(&there)
        );
        return;
    }
    println!("{}", String::from_utf8_lossy(&there.stdout).trim());
    for (test, words) in [("test_loader.py", "OfTorch"), ("test_mp.py", "")] {
        let script = copy.join("tests").join(test);
        let mut line = vec![script.to_str().unwrap(), "-v"];
        line.extend(words.split_whitespace());
        let output = run(&line);
        println!("{}", said(&output));
        assert!(output.status.success(), "{test} with PyTorch: {}", said(&output));
    }
}

/// Under `python -m kumiki` each test has the result that it has without.
fn as_without(suites: &[&str]) {
    let folder = folder();
    let copy = package(folder.path());
    let mut faults = String::new();
    let mut asked = 0;
    for python in pythons() {
        asked += 1;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "7200", python]).arg(copy.join("tests/cpython_suites.py"));
        command.args(suites).env("PYTHONPATH", &copy).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env_remove("KUMIKI_LIBRARY").current_dir(folder.path());
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        println!("{}", String::from_utf8_lossy(&output.stdout).trim());
        if !output.status.success() {
            faults += &format!("{python}:\n{}\n", said(&output));
        }
    }
    assert!(asked > 0, "no Python has CPython's tests: Debian's are in libpython3.11-testsuite");
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn suites_of_subprocess_and_asyncio_are_as_without() {
    let asyncio = ["test_subprocess", "test_events", "test_unix_events"];
    let asyncio = asyncio.map(|name| format!("test.test_asyncio.{name}"));
    let suites = ["test.test_subprocess", "test.test_posix"]
        .into_iter()
        .chain(asyncio.iter().map(String::as_str));
    as_without(&suites.collect::<Vec<_>>());
}

#[test]
#[ignore = "minutes for each Python: `cargo xtask test long`, after a change to `python -m kumiki`"]
fn all_suites_of_asyncio_are_as_without() {
    as_without(&["test.test_asyncio"]);
}

#[test]
#[ignore = "minutes for each Python: `cargo xtask test long`, after a change to `python -m kumiki`"]
fn suites_of_multiprocessing_by_fork_are_as_without() {
    as_without(&["test.test_multiprocessing_fork"]);
}

#[test]
#[ignore = "minutes for each Python: `cargo xtask test long`, after a change to `python -m kumiki`"]
fn suites_of_multiprocessing_by_spawn_are_as_without() {
    as_without(&["test.test_multiprocessing_spawn"]);
}

#[test]
#[ignore = "minutes for each Python: `cargo xtask test long`, after a change to `python -m kumiki`"]
fn suites_of_multiprocessing_by_a_fork_server_are_as_without() {
    as_without(&["test.test_multiprocessing_forkserver"]);
}

/// A template makes its processes, whoever makes the template.
#[test]
fn cpython_s_tests_of_multiprocessing_hold() {
    hold_by(&[Way { by_server: false, other: false }], &["--multiprocessing"], "test_cpython.py");
}
