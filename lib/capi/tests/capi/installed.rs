//! What `cargo xtask capi` installs serves programs in C and C++.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"];
const ASAN: &str = "-fsanitize=address";

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("lib/capi is in it")
}

pub(crate) fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Where it is installed, once for all tests. By the profile of the README's first command, which
/// has built most of it: what is shipped takes two minutes more, for speed alone.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch().join("capi");
        let cargo = env::var_os("CARGO").expect("cargo runs its tests with CARGO set");
        let mut install = Command::new(cargo);
        install.args(["xtask", "capi", "--profile", "release", "--prefix"]);
        well(install.arg(&prefix).current_dir(root()));
        prefix
    })
}

/// Runs to the end, which must be a good one; what it printed.
pub(crate) fn well(command: &mut Command) -> String {
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

pub(crate) fn dynamic() -> Vec<String> {
    pkg_config(&["--cflags", "--libs"])
}

fn r#static() -> Vec<String> {
    let words = pkg_config(&["--cflags", "--libs", "--static"]);
    let named = |word| if word == "-lkumiki" { "-l:libkumiki.a".to_owned() } else { word };
    words.into_iter().map(named).collect()
}

/// The programs, each of `tests/capi/NAME.c`.
const PROGRAMS: [&str; 8] = [
    "files",
    "shadow",
    "shadow_refused",
    "parasc",
    "parasc_ends",
    "parasc_refused",
    "resource",
    "spawn",
];

/// Compiles one of them into a program with `kind` in its name.
fn compile(source: &str, kind: &str, compiler: &[&str], kumiki: &[String]) -> PathBuf {
    let program = scratch().join(format!("{source}-{kind}"));
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(STRICT).arg(root().join(format!("tests/capi/{source}.c")));
    well(command.arg("-o").arg(&program).arg("-pthread").args(kumiki));
    program
}

fn with_shared_library(kind: &str, compiler: &[&str]) {
    for source in PROGRAMS {
        let program = compile(source, kind, compiler, &dynamic());
        well(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")));
    }
}

fn with_static_library(kind: &str, compiler: &[&str]) {
    for source in PROGRAMS {
        well(&mut Command::new(compile(source, kind, compiler, &r#static())));
    }
}

#[test]
fn c_with_the_shared_library() {
    with_shared_library("shared", &["gcc", "-std=c99"]);
}

#[test]
fn c_with_the_shared_library_under_asan() {
    with_shared_library("shared-asan", &["gcc", "-std=c99", ASAN]);
}

#[test]
fn c_with_the_static_library() {
    with_static_library("static", &["gcc", "-std=c99"]);
}

#[test]
fn c_with_the_static_library_under_asan() {
    with_static_library("static-asan", &["gcc", "-std=c99", ASAN]);
}

#[test]
fn c_without_any_shared_library() {
    let kumiki = pkg_config(&["--cflags", "--libs", "--static"]);
    for source in PROGRAMS {
        let compiler = ["gcc", "-std=c99", "-static"];
        well(&mut Command::new(compile(source, "all-static", &compiler, &kumiki)));
    }
}

/// A program of the names of version 0.1: compiled with them, and linked with them by somebody else before.
#[test]
fn old_names_go_on() {
    let include = ["-include", "kumiki/old_names.h"];
    let compiler = [&["gcc", "-std=c99"][..], &include].concat();
    well(&mut Command::new(compile("old_names", "static", &compiler, &r#static())));
    for (kind, compiler) in
        [("shared", &compiler[..]), ("linked", &["gcc", "-std=c99", "-DLINKED"])]
    {
        let program = compile("old_names", kind, compiler, &dynamic());
        well(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")));
    }
}

/// What starts programs is what memcheck makes children of otherwise.
#[test]
fn a_program_with_the_library_runs_in_memcheck() {
    let program = compile("spawn", "memcheck", &["gcc", "-std=c99"], &dynamic());
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=no"]).arg(program);
    well(valgrind.env("LD_LIBRARY_PATH", prefix().join("lib")));
}

/// One source for both, in the names of the C library.
#[test]
fn at_the_edges_of_posix_spawn_it_does_the_same() {
    let source = root().join("tests/capi/spawn_same.c");
    let run = |kind: &str, flags: &[String]| {
        let program = scratch().join(format!("spawn-same-{kind}"));
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g"]);
        well(gcc.arg(&source).arg("-o").arg(&program).args(flags));
        let folder = tempfile::tempdir_in(scratch()).unwrap();
        let mut run = Command::new(program);
        well(run.env("LD_LIBRARY_PATH", prefix().join("lib")).current_dir(&folder))
    };
    let retarget = root().join("tests/capi/peers/retarget.h").to_str().unwrap().to_owned();
    let ours = run("kumiki", &[dynamic(), vec!["-include".to_owned(), retarget]].concat());
    let theirs = run("libc", &[]);
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours, theirs);
}

#[test]
fn cpp_reads_the_header_and_runs() {
    with_shared_library("cpp", &["g++", "-x", "c++", "-std=c++11"]);
}

/// `<kumiki/kumiki.hpp>`, by both compilers where both are, and once where a leak ends it.
#[test]
fn what_owns_something_in_cpp_gives_it_back() {
    let source = root().join("tests/capi/cpp.cpp");
    let try_one = |kind: &str, compiler: &[&str], kumiki: &[String]| {
        let program = scratch().join(format!("cpp-{kind}"));
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(["-std=c++17", "-pthread"]).args(STRICT).arg(&source);
        well(command.arg("-o").arg(&program).args(kumiki));
        well(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")));
    };
    try_one("shared", &["g++"], &dynamic());
    try_one("static-asan", &["g++", ASAN], &r#static());
    let clang = Command::new("clang++").arg("--version").output();
    match clang.is_ok_and(|output| output.status.success()) {
        true => try_one("clang", &["clang++"], &dynamic()),
        false => println!("passed over: no clang++ here"),
    }
}

#[test]
fn a_program_asks_for_the_name_with_the_major_version() {
    let program = compile("shadow", "named", &["gcc", "-std=c99"], &dynamic());
    let wanted = well(Command::new("readelf").arg("--dynamic").arg(program));
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    assert!(wanted.contains(&format!("[libkumiki.so.{major}]")), "{wanted}");
}

/// A library that ships what only debuggers read is eight times as large.
#[test]
fn libraries_are_without_what_debuggers_read() {
    for library in ["libkumiki.so", "libkumiki.a"] {
        let mut readelf = Command::new("readelf");
        let said =
            well(readelf.args(["--sections", "--wide"]).arg(prefix().join("lib").join(library)));
        assert!(said.contains(".text"), "{library}: {said}");
        assert!(!said.contains(".debug_"), "{library} has debug information");
    }
}
