//! Programs in C and Python call a place of this process.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kumiki_places::standard::{Counter, parts};
use kumiki_places::{Allow, Block, Lease, Part, Served, Server, Work};
use kumiki_resource::Interface;

/// Waits for so many milliseconds.
struct Later;

impl Part for Later {
    type Kind = Counter;
    const NAME: &'static str = "later";
    type In = u64;
    type Out = i64;
}

impl Block for Later {
    fn begin(counter: &mut Counter, (): &mut (), ms: u64) -> Work<i64> {
        let value = counter.0;
        Box::new(move || {
            std::thread::sleep(Duration::from_millis(ms));
            value
        })
    }
}

/// A place of this process, and its name.
fn served(test: &str) -> (Interface, Served, String) {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let server = Server::here(format!("c{}{test}", std::process::id()));
    let server = server.parts(parts().blocking::<Later>()).allow(Allow::everything());
    let served = server.managing().serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    (interface, served, place)
}

/// The library under its names, as it is installed.
fn library(folder: &Path) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().skip(1).map(|folder| folder.join("libkumiki_places_c.so"));
    let built = built.take(2).find(|file| file.exists()).expect("cargo builds it for this test");
    for name in ["libkumiki-places.so", "libkumiki-places.so.0"] {
        symlink(&built, folder.join(name)).unwrap();
    }
    folder.join("libkumiki-places.so.0")
}

/// Runs a program, and ends its place when it says so.
fn run(command: &mut Command, served: Served) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut served = Some(served);
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        if line == "end the place" {
            served.take();
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(served.is_none(), "it has not come to its end");
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn a_program_in_c_calls_waits_gives_up_and_watches() {
    let folder = tempfile::tempdir().unwrap();
    library(folder.path());
    let program = folder.path().join("places");
    for (compiler, standard) in [("c++", "-std=c++11"), ("cc", "-std=c11")] {
        let mut compile = Command::new(compiler);
        compile.args([standard, "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]);
        // As C++ the header alone.
        match compiler {
            "cc" => compile.arg(source("tests/places/places.c")).arg("-o").arg(&program),
            _ => {
                compile.args(["-fsyntax-only", "-x", "c++"]).arg(source("include/kumiki/places.h"))
            }
        };
        compile.arg("-I").arg(source("include")).arg("-L").arg(folder.path());
        if compiler == "cc" {
            compile.arg("-lkumiki-places");
        }
        let output = compile.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (_interface, served, place) = served("c");
    run(Command::new(program).arg(place).env("LD_LIBRARY_PATH", folder.path()), served);
}

#[test]
fn a_program_in_python_calls_waits_gives_up_and_watches() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path());
    let (_interface, served, place) = served("python");
    let mut command = Command::new("python3");
    command.arg(source("../python/tests/test_place.py")).arg(place);
    command.env("KUMIKI_PLACES_LIBRARY", library).env("PYTHONDONTWRITEBYTECODE", "1");
    run(&mut command, served);
}

#[test]
fn each_function_of_the_header_is_there_and_no_other() {
    let header = std::fs::read_to_string(source("include/kumiki/places.h")).unwrap();
    let declared = header.lines().filter(|line| {
        ["int ", "void ", "const char *"].iter().any(|start| line.starts_with(start))
    });
    let mut declared: Vec<_> = declared
        .map(|line| line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned())
        .collect();
    declared.sort();
    let mut defined = Vec::new();
    for file in std::fs::read_dir(source("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let functions = text.split("extern \"C\" fn ").skip(1);
        defined.extend(functions.map(|rest| rest.split('(').next().unwrap().to_owned()));
    }
    defined.sort();
    assert_eq!(declared, defined);
}
