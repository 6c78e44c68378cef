//! `cargo xtask test python`: the tests of the package for Python where Python is all that is there.
//!
//! What a test needs beside Python's own library, such as numpy, mypy or PyTorch, it names when it is skipped. That
//! is seen only where nothing of it is installed: in a Debian as new.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::capi::{self, Place, files_in};
use crate::fresh::{CLONE, Clean, Release, verdicts_of};
use crate::run::root;

/// Packages of that Debian beside its essential ones.
const INSTALLED: [&str; 2] = ["ca-certificates", "python3"];
/// Modules that some test takes where they are there, and is skipped without.
const ABSENT: [&str; 5] = ["mypy", "numexpr", "numpy", "pytest", "torch"];
/// Seconds that a file of tests may take.
const LONGEST: u32 = 900;
/// CPython's own suites are a package of their own, of which others' long tests are made.
const OTHERS: [&str; 1] = ["test_cpython.py"];

/// Runs each file of tests in this release, or in both.
pub(crate) fn test(release: Option<Release>) -> Result<ExitCode> {
    let files = files(&root().join("lib/python/tests"))?;
    verdicts_of(release, |release| {
        let clean = Clean::with_project("python", release, &INSTALLED)?;
        let staging = Some(clean.folder().to_owned());
        capi::install(&Place { staging, prefix: "/usr/local".into(), libdir: None }, "release")?;
        let absent = ABSENT.map(|name| format!("{name:?}")).join(", ");
        let mut steps = vec![(
            "nothing but Python is there".to_owned(),
            format!(
                "python3 -c 'import importlib.util as u; \
                 assert not [n for n in [{absent}] if u.find_spec(n)]'"
            ),
        )];
        steps.extend(files.iter().map(|file| (file.clone(), line(file))));
        clean.check(steps)
    })
}

fn line(file: &str) -> String {
    format!(
        "cd /tmp && PYTHONPATH={CLONE}/lib/python KUMIKI_LIBRARY=/usr/local/lib/libkumiki.so \
         PYTHONDONTWRITEBYTECODE=1 timeout --kill-after=5 {LONGEST} \
         python3 {CLONE}/lib/python/tests/{file} -v"
    )
}

/// Names of files of tests.
fn files(folder: &Path) -> Result<Vec<String>> {
    let name = |path: PathBuf| {
        let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        Ok((name.starts_with("test_") && name.ends_with(".py")).then_some(name))
    };
    let found: Result<Vec<_>> =
        files_in(folder)?.into_iter().filter_map(|path| name(path).transpose()).collect();
    let mut found = found?;
    found.retain(|name| !OTHERS.contains(&&**name));
    found.sort();
    ensure!(!found.is_empty(), "{} has no file of tests", folder.display());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_tests_is_run_and_what_is_absent_is_what_a_test_can_do_without() {
        let folder = root().join("lib/python/tests");
        let files = files(&folder).unwrap();
        assert!(files.contains(&"test_template.py".to_owned()), "{files:?}");
        assert!(!files.contains(&"test_cpython.py".to_owned()), "{files:?}");
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let all: String = files.iter().map(|name| text(name)).chain([text("loaders.py")]).collect();
        for name in ABSENT {
            assert!(all.contains(&format!("no {name}")), "no test is skipped for want of {name}");
        }
        for name in OTHERS {
            assert!(folder.join(name).is_file(), "{name}");
        }
    }
}
