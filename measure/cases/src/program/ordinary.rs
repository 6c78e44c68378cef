//! Ordinary programs: with a C library, with or without a dynamic linker, in
//! Rust, and run by an interpreter. Each does what the bare ones do, so that what
//! its surroundings add stands beside them.
//!
//! Those that are compiled were so with this crate (`build.rs`) and are part of
//! it. An interpreter is the machine's own.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use flate2::read::GzDecoder;

use super::{Code, Image, file};
use kumiki_measure::error::{Error, Result};

mod class;

const STATIC_C: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/static_c.gz"));
const DYNAMIC_C: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dynamic_c.gz"));
const RUST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rust.gz"));
const PYTHON: &[u8] = include_bytes!("ordinary/ordinary.py");

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordinary {
    /// Some hundred bytes of machine code, for comparison.
    Bare,
    /// C, linked with the C library into one file.
    StaticC,
    /// C, linked with the C library when it is started.
    DynamicC,
    /// Rust with its standard library, linked with the C library when started.
    Rust,
    /// A script and the machine's python3.
    Python,
    /// A class and the machine's java.
    Java,
}

/// All of them, the smallest first.
pub(crate) const ALL: [Ordinary; 6] = [
    Ordinary::Bare,
    Ordinary::StaticC,
    Ordinary::DynamicC,
    Ordinary::Rust,
    Ordinary::Python,
    Ordinary::Java,
];

/// A program and its first arguments.
pub(crate) struct Start {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Arguments before the program's own.
    pub(crate) arguments: Vec<OsString>,
}

impl Ordinary {
    /// Its name in a case's parameters.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Ordinary::Bare => "bare",
            Ordinary::StaticC => "static_c",
            Ordinary::DynamicC => "dynamic_c",
            Ordinary::Rust => "rust",
            Ordinary::Python => "python",
            Ordinary::Java => "java",
        }
    }

    /// Start of a program that ends at once.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if this machine, or that on which this crate was
    /// built, lacks what it takes; those of making a file.
    pub(crate) fn ending(self, scratch: &Path) -> Result<Start> {
        match self {
            Ordinary::Bare => {
                let image = Image::of(Code::Exit);
                Ok(Start { path: image.file(scratch, "exit")?, arguments: Vec::new() })
            }
            Ordinary::Python => {
                Ok(Start { path: python()?, arguments: ["-c", "pass"].map(OsString::from).into() })
            }
            Ordinary::Java => {
                let class = self.file(scratch, "Ends.class", &class::ends())?;
                let folder = class.parent().expect("a file is in a folder").to_owned();
                let arguments = vec!["-cp".into(), folder.into(), "Ends".into()];
                Ok(Start { path: java()?, arguments })
            }
            compiled => compiled.working(scratch),
        }
    }

    /// Start of a program that forks or execs, as its next argument says.
    ///
    /// # Errors
    /// As [`Ordinary::ending`].
    ///
    /// # Panics
    /// Of a bare program there is an [`Image`] for each, and Java has no means to
    /// fork or to exec.
    pub(crate) fn working(self, scratch: &Path) -> Result<Start> {
        let (path, arguments) = match self {
            Ordinary::StaticC => (self.compiled(scratch, STATIC_C)?, Vec::new()),
            Ordinary::DynamicC => (self.compiled(scratch, DYNAMIC_C)?, Vec::new()),
            Ordinary::Rust => (self.compiled(scratch, RUST)?, Vec::new()),
            Ordinary::Python => {
                let script = self.file(scratch, "ordinary.py", PYTHON)?;
                (python()?, vec![script.into()])
            }
            Ordinary::Bare | Ordinary::Java => panic!("no such program: {}", self.word()),
        };
        Ok(Start { path, arguments })
    }

    fn compiled(self, scratch: &Path, packed: &[u8]) -> Result<PathBuf> {
        if packed.is_empty() {
            return Err(Error::unsupported(
                format!("a program of kind {}", self.word()),
                "it could not be compiled where this program was built; a static one needs libc.a \
                 (Debian: libc6-dev, Fedora: glibc-static)",
            ));
        }
        self.file(scratch, self.word(), &unpacked(packed))
    }

    fn file(self, scratch: &Path, name: &str, content: &[u8]) -> Result<PathBuf> {
        file::make(scratch, name, content.len() as u64, |file| file.write_all(content))
    }
}

/// A program that `build.rs` has packed.
fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut program = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut program).expect("build.rs has packed it");
    program
}

/// The interpreter itself: what PATH leads to may be a script that looks for it.
fn python() -> Result<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let look = || {
        let mut command = Command::new("python3");
        command.args(["-c", "import sys; print(sys.executable, end='')"]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let path = PathBuf::from(OsString::from_vec(output.stdout));
        (output.status.success() && path.is_absolute()).then_some(path)
    };
    FOUND.get_or_init(look).clone().ok_or_else(|| {
        Error::unsupported("python3", "install it (Debian: python3-minimal) and have it in PATH")
    })
}

/// The launcher that PATH leads to.
fn java() -> Result<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = std::env::split_paths(&folders).map(|folder| folder.join("java")).find(runs);
    // It finds its runtime beside itself, wherever links point to it.
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        let needs = "install a runtime (Debian: default-jre-headless) and have it in PATH";
        Error::unsupported("java", needs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ends_well_without_an_environment() {
        let scratch = tempfile::tempdir().unwrap();
        for program in ALL {
            let start = match program.ending(scratch.path()) {
                Ok(start) => start,
                Err(Error::Unsupported { feature, needs }) => {
                    let may_lack = [Ordinary::StaticC, Ordinary::Python, Ordinary::Java];
                    assert!(may_lack.contains(&program), "{feature}: {needs}");
                    eprintln!("skipped: {feature}: {needs}");
                    continue;
                }
                Err(error) => panic!("{program:?}: {error}"),
            };
            let output = Command::new(start.path).args(start.arguments).env_clear().output();
            let output = output.unwrap();
            assert!(output.status.success(), "{program:?}: {output:?}");
            assert!(
                output.stdout.is_empty() && output.stderr.is_empty(),
                "{program:?}: {output:?}"
            );
        }
    }

    /// True if the program names a dynamic linker.
    fn is_dynamic(program: &[u8]) -> bool {
        use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
        let e = object::LittleEndian;
        let file = ElfFile64::<object::LittleEndian>::parse(program).unwrap();
        let headers = file.elf_header().program_headers(e, program).unwrap();
        headers.iter().any(|header| header.p_type(e) == object::elf::PT_INTERP)
    }

    #[test]
    fn programs_are_linked_as_they_are_called() {
        assert!(is_dynamic(&unpacked(DYNAMIC_C)));
        assert!(is_dynamic(&unpacked(RUST)));
        if STATIC_C.is_empty() {
            eprintln!("skipped: there was no libc.a");
            return;
        }
        assert!(!is_dynamic(&unpacked(STATIC_C)));
    }
}
