//! Programs of other projects, compiled for the C library itself and for Kumiki.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::expected::Expected;
use crate::way::Way;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("lib/capi is in it")
}

/// The one that cargo has built with this program.
pub(crate) fn library(name: &str) -> PathBuf {
    let program = env::current_exe().unwrap();
    let library = program.parent().expect("it is in target/PROFILE/deps").join(name);
    assert!(library.exists(), "{} is built with the tests", library.display());
    library
}

/// A folder that other users can enter and write to.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("kumiki-peers-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// What must go well.
pub(crate) fn well(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", said(&output));
}

pub(crate) fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}{}", text(&output.stdout), text(&output.stderr), output.status)
}

/// `gcc` for what takes Kumiki in place of the C library, or not.
pub(crate) fn gcc(flags: &[String], retarget: bool) -> Command {
    let mut gcc = Command::new("gcc");
    // Their warnings are theirs.
    gcc.args(["-std=gnu11", "-D_GNU_SOURCE", "-w"]).args(flags);
    gcc.arg("-I").arg(root().join("lib/capi/include"));
    let header = if retarget { "retarget.h" } else { "libc.h" };
    gcc.arg("-include").arg(root().join("tests/capi/peers").join(header));
    gcc
}

/// A suite of programs that run alone.
pub(crate) struct Suite<'a> {
    pub(crate) name: &'a str,
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) flags: Vec<String>,
    /// Linked with each, for Kumiki or not.
    pub(crate) with: [Option<PathBuf>; 2],
    /// Arguments of a test with this path.
    pub(crate) args: fn(&str) -> Vec<&str>,
    pub(crate) folder: &'a Path,
}

impl Suite<'_> {
    pub(crate) fn run(&self) {
        let mut expected = Expected::of(self.name);
        let ways = Way::all();
        for source in &self.sources {
            let test = source.file_stem().unwrap().to_str().unwrap();
            let [theirs, ours] = [false, true].map(|retarget| self.program(source, test, retarget));
            for way in &ways {
                let run = |program: &Path| {
                    let args = (self.args)(program.to_str().expect("a path of ours"));
                    way.run(program, &args, program.parent().expect("it is in a folder"))
                };
                let plain = run(&theirs);
                if !plain.status.success() {
                    println!("{test} ({way}) does not hold with the C library: {}", said(&plain));
                    continue;
                }
                let output = run(&ours);
                let fault = (!output.status.success()).then(|| said(&output));
                expected.ran(test, *way, fault);
            }
        }
        expected.end();
    }

    /// A program in a folder of its own, under its name, as some start themselves by that.
    fn program(&self, source: &Path, test: &str, retarget: bool) -> PathBuf {
        let folder = self.folder.join(if retarget { "kumiki" } else { "libc" });
        let program = folder.join(test);
        let mut gcc = gcc(&self.flags, retarget);
        gcc.arg(source).args(&self.with[usize::from(retarget)]);
        if retarget {
            gcc.arg(folder.join(LIBRARY)).arg("-Wl,-rpath,$ORIGIN");
        }
        well(gcc.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program));
        program
    }
}

/// The name that is in the library itself.
const LIBRARY: &str = "libkumiki.so.0";

/// One for each way of compiling, for all, the one for Kumiki with the library.
pub(crate) fn folders(within: &Path) {
    for name in ["libc", "kumiki"] {
        let folder = within.join(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::copy(library("libkumiki_c.so"), within.join("kumiki").join(LIBRARY)).unwrap();
}
