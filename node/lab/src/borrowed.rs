//! A program of another release of Debian, with the libraries that it was made for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::apt::debian_root;
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::talk::Talk;
use crate::tied::tied;

const LOADER: &str = "ld-linux-x86-64.so.2";
/// Debian 12's packages have some of them in the second.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// Starts the program.
const RUN: &str = "run";

/// A folder with a program of a release's package and all that it loads. Brought to `at` in
/// a machine, its file `run` is the program.
pub fn borrowed(
    cache: &Cache,
    (release, package): (&str, &str),
    program: &str,
    at: &Path,
    talk: Talk<'_>,
) -> Result<TempDir> {
    let root = debian_root(cache, release, &[package], talk)?;
    let program = root.join(program.trim_start_matches('/'));
    let failed = |reason: String| Error::Program { program: program.display().to_string(), reason };
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let copy = |from: &Path| {
        let name = from.file_name().unwrap_or_default();
        fs::copy(from, folder.path().join(name))
            .map_err(|error| failed(format!("copying {}: {error}", from.display())))
    };
    let loaders = LIBRARIES.map(|folder| root.join(folder).join(LOADER));
    let loader = loaders.into_iter().find(|loader| loader.exists());
    let loader =
        loader.ok_or_else(|| failed(format!("no {LOADER} in {}", LIBRARIES.join(", "))))?;
    copy(&program)?;
    copy(&loader)?;
    for library in libraries(&root, &loader, &program).map_err(&failed)? {
        copy(&library)?;
    }
    let (at, name) = (at.display(), program.file_name().unwrap_or_default().display());
    let script = format!("#!/bin/sh\nexec {at}/{LOADER} --library-path {at} {at}/{name} \"$@\"\n");
    let run = folder.path().join(RUN);
    fs::write(&run, script)
        .and_then(|()| fs::set_permissions(&run, fs::Permissions::from_mode(0o755)))
        .map_err(|error| failed(error.to_string()))?;
    Ok(folder)
}

/// Libraries that a program loads, by its own loader's word.
fn libraries(
    root: &Path,
    loader: &Path,
    program: &Path,
) -> std::result::Result<Vec<PathBuf>, String> {
    let folders = LIBRARIES.map(|folder| root.join(folder).display().to_string()).join(":");
    let mut list = tied(loader);
    list.args(["--library-path", &folders, "--list"]).arg(program);
    let output = list.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!(
            "listing its libraries ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = text.lines().filter_map(|line| line.split_once(" => /"));
    Ok(paths
        .filter_map(|(_, path)| path.split(' ').next())
        .map(|path| Path::new("/").join(path))
        .collect())
}
