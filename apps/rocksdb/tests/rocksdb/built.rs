//! The library and programs that use it, built as a user would build them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs to the end, which must be a good one; what it printed.
pub(crate) fn well(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } =
        output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    format!("{stdout}{stderr}")
}

/// The library, on a libkumiki that is installed for it.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (prefix, build) = (scratch().join("rocksdb-capi"), scratch().join("rocksdb"));
        let cargo = env::var_os("CARGO").expect("cargo runs its tests with CARGO set");
        let mut install = Command::new(cargo);
        // By the profile of other tests of libkumiki, which have built it.
        install.args(["xtask", "capi", "--profile", "release", "--prefix"]).arg(&prefix);
        well(install.current_dir(source));
        let mut make = Command::new("make");
        make.args(["-j2", "CXXFLAGS=-O2 -g -Werror"]).arg(format!("BUILD={}", build.display()));
        well(make.arg(format!("KUMIKI={}", prefix.display())).current_dir(source));
        build.join("libkumiki-rocksdb.so")
    })
}

/// A program of `tests/rocksdb`, which knows nothing of Kumiki.
pub(crate) fn compiled(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/rocksdb/{name}.cc"));
    let program = scratch().join(format!("rocksdb-{name}"));
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread"]);
    well(compiler.arg(source).arg("-o").arg(&program).arg("-lrocksdb"));
    program
}

/// A program with the library loaded into it.
pub(crate) fn with_library(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_PRELOAD", library());
    command
}

/// A folder for a database, where files are on a disk if the build's are.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(scratch()).unwrap()
}
