//! CPython's tests of subprocess, of asyncio's subprocesses and of multiprocessing.

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

/// A template makes its processes, whoever makes the template.
#[test]
fn cpython_s_tests_of_multiprocessing_hold() {
    hold_by(&[Way { by_server: false, other: false }], &["--multiprocessing"], "test_cpython.py");
}
