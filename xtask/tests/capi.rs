//! What `cargo xtask capi` installs serves programs in C and C++.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"];
const ASAN: &str = "-fsanitize=address";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Where it is installed, once for all tests.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch().join("capi");
        let mut install = Command::new(env!("CARGO_BIN_EXE_xtask"));
        well(install.args(["capi", "--prefix"]).arg(&prefix));
        prefix
    })
}

/// Runs to the end, which must be a good one; what it printed.
fn well(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } =
        output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    print!("{stdout}");
    stdout.into_owned()
}

/// What pkg-config says that a program needs.
fn pkg_config(asked: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    let words = well(command.args(asked).arg("kumiki"));
    words.split_whitespace().map(str::to_owned).collect()
}

fn dynamic() -> Vec<String> {
    pkg_config(&["--cflags", "--libs"])
}

fn r#static() -> Vec<String> {
    let words = pkg_config(&["--cflags", "--libs", "--static"]);
    let named = |word| if word == "-lkumiki" { "-l:libkumiki.a".to_owned() } else { word };
    words.into_iter().map(named).collect()
}

/// Compiles `tests/capi/shadow.c` into a program of this name.
fn compile(name: &str, compiler: &[&str], kumiki: &[String]) -> PathBuf {
    let program = scratch().join(name);
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(STRICT).arg(root().join("tests/capi/shadow.c"));
    well(command.arg("-o").arg(&program).arg("-pthread").args(kumiki));
    program
}

fn run_with_shared_library(program: &Path) {
    well(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")));
}

#[test]
fn c_with_the_shared_library() {
    run_with_shared_library(&compile("shared", &["gcc", "-std=c99"], &dynamic()));
}

#[test]
fn c_with_the_shared_library_under_asan() {
    run_with_shared_library(&compile("shared-asan", &["gcc", "-std=c99", ASAN], &dynamic()));
}

#[test]
fn c_with_the_static_library() {
    well(&mut Command::new(compile("static", &["gcc", "-std=c99"], &r#static())));
}

#[test]
fn c_with_the_static_library_under_asan() {
    well(&mut Command::new(compile("static-asan", &["gcc", "-std=c99", ASAN], &r#static())));
}

#[test]
fn cpp_reads_the_header_and_runs() {
    let compiler = ["g++", "-x", "c++", "-std=c++11"];
    run_with_shared_library(&compile("cpp", &compiler, &dynamic()));
}

#[test]
fn a_program_asks_for_the_name_with_the_major_version() {
    let program = compile("named", &["gcc", "-std=c99"], &dynamic());
    let wanted = well(Command::new("readelf").arg("--dynamic").arg(program));
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    assert!(wanted.contains(&format!("[libkumiki.so.{major}]")), "{wanted}");
}
