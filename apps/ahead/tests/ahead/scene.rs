//! Programs run with the library and without.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Others have had their share of a thing that is done again and again for so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// The library as it was built for this test.
pub(crate) fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap();
    let places = [folder, folder.parent().unwrap()];
    let found =
        places.iter().map(|folder| folder.join("libkumiki_ahead.so")).find(|at| at.exists());
    found.unwrap_or_else(|| panic!("libkumiki_ahead.so is not beside {}", own.display()))
}

/// A command with the library in front.
pub(crate) fn ahead(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command
}

/// A file in which the library counts.
pub(crate) struct Counts(tempfile::NamedTempFile);

impl Counts {
    pub(crate) fn of(command: &mut Command) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        command.env("KUMIKI_AHEAD_COUNTS", file.path());
        Counts(file)
    }

    /// The count at this place of `apps/ahead/src/counts.rs`.
    pub(crate) fn get(&self, place: usize) -> u64 {
        let bytes = std::fs::read(self.0.path()).unwrap();
        u64::from_ne_bytes(bytes[place * 8..][..8].try_into().unwrap())
    }

    /// Processes in which the pool ran.
    pub(crate) fn pools(&self) -> u64 {
        self.get(1)
    }
}

/// Runs a command to its end; gives its process, too.
pub(crate) fn run(command: &mut Command) -> (u32, Output) {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let process = child.id();
    (process, child.wait_with_output().unwrap())
}

/// True if a program is here; else says that what needs it is passed over.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !is_there {
        println!("passed over: there is no {program}");
    }
    is_there
}

/// Builds a program in C.
pub(crate) fn build(source: &str, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ahead").join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"]);
    let built = compiler.arg(&program).arg(&source).status().unwrap();
    assert!(built.success(), "{}: {built}", source.display());
    program
}

/// Does a thing again until others have had their share of it and nothing was asked twice: how much that is, others of this machine
/// decide, and the kernel, which gives up of its memory when it likes. What must hold each time is asserted within.
pub(crate) fn at_times(body: impl Fn() -> bool) {
    let begun = Instant::now();
    while !body() {
        assert!(
            begun.elapsed() < PATIENCE,
            "in {PATIENCE:?} others never had their share with nothing asked twice"
        );
    }
}

/// A control group with a limit.
pub(crate) struct Group(PathBuf);

impl Group {
    /// Makes one; none, said why, where that cannot be done here. Its limit is in the file of one of these names.
    pub(crate) fn limited(controller: &str, files: &[&str], most: u64) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("kumiki-ahead-test-{}-{number}", std::process::id());
        let places = ["/sys/fs/cgroup".into(), format!("/sys/fs/cgroup/{controller}")];
        let made = places.iter().find_map(|place| {
            let at = Path::new(place).join(&name);
            fs::create_dir(&at).ok()?;
            let group = Group(at);
            // Made by the kernel, if it is a group of that controller.
            let limit = files
                .iter()
                .find_map(|file| fs::File::options().write(true).open(group.0.join(file)).ok());
            limit?.write_all(most.to_string().as_bytes()).ok()?;
            Some(group)
        });
        if made.is_none() {
            println!("passed over: a control group of {controller} cannot be made here");
        }
        made
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
