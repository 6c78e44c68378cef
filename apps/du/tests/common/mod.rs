//! Trees to count, and GNU du to compare with.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The program under test.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_kumiki-du");

/// A directory in which both programs run.
pub(crate) struct Scene {
    folder: TempDir,
    /// Of both programs.
    pub(crate) locale: &'static str,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // For programs that run as somebody else.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        Scene { folder, locale: "C" }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self, name: impl AsRef<Path>) -> &Self {
        fs::create_dir_all(self.path(name)).unwrap();
        self
    }

    /// A file of so many bytes.
    pub(crate) fn file(&self, name: impl AsRef<Path>, bytes: usize) -> &Self {
        fs::write(self.path(name), vec![b'x'; bytes]).unwrap();
        self
    }

    pub(crate) fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> &Self {
        fs::hard_link(self.path(original), self.path(link)).unwrap();
        self
    }

    /// A symbolic link that says `target`.
    pub(crate) fn link(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> &Self {
        std::os::unix::fs::symlink(target, self.path(link)).unwrap();
        self
    }

    /// A program to be run in this directory.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("LC_ALL", self.locale);
        for variable in ["DU_BLOCK_SIZE", "BLOCK_SIZE", "BLOCKSIZE", "POSIXLY_CORRECT"] {
            command.env_remove(variable);
        }
        command
    }

    /// Both programs print the same lines, in whatever order, and end the same.
    pub(crate) fn same<S: AsRef<OsStr>>(&self, args: &[S]) {
        self.same_by(args, |_| ());
    }

    /// The same, with something done to each command first.
    pub(crate) fn same_by<S: AsRef<OsStr>>(&self, args: &[S], prepare: impl Fn(&mut Command)) {
        let run = |program: &str, first: &[&str]| {
            let mut command = self.command(program);
            prepare(command.args(first).args(args));
            command.output().unwrap()
        };
        let shown: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        let end = if shown.iter().any(|arg| *arg == "-0") { 0 } else { b'\n' };
        // A file system may still be moving blocks about, and /dev changes.
        for _ in 0..5 {
            let before = run("du", &[]);
            let ours = [run(OURS, &["--plain"]), run(OURS, &["--parallel"])];
            if before == run("du", &[]) {
                ours.iter().for_each(|ours| compare(ours, &before, end, &format!("{shown:?}")));
                return;
            }
        }
        panic!("GNU du never gave the same lines twice for {shown:?}");
    }
}

/// Ours against theirs; `end` ends a line.
fn compare(ours: &Output, theirs: &Output, end: u8, what: &str) {
    let (here, there) = (sorted(&ours.stdout, end), sorted(&theirs.stdout, end));
    let surplus = |of: &[String], other: &[String]| -> Vec<String> {
        let surplus = of.iter().filter(|line| other.binary_search(line).is_err());
        surplus.take(5).map(|line| line.chars().take(200).collect()).collect()
    };
    assert!(
        here == there,
        "{what}: only here {:?}, only from GNU du {:?}; {}",
        surplus(&here, &there),
        surplus(&there, &here),
        said(ours),
    );
    assert_eq!(ours.status, theirs.status, "{what}: {}", said(ours));
    let faults = |output: &Output| said(output).lines().count();
    assert_eq!(faults(ours), faults(theirs), "{what}: {}{}", said(ours), said(theirs));
}

/// What a program wrote to stderr.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of an output, in a fixed order.
pub(crate) fn sorted(bytes: &[u8], end: u8) -> Vec<String> {
    let lines = bytes.split_inclusive(|&byte| byte == end);
    let mut lines: Vec<_> = lines.map(|line| line.escape_ascii().to_string()).collect();
    lines.sort_unstable();
    lines
}

/// Whether `du` is GNU's, with the meaning of `--apparent-size` that Debian 12
/// has: later ones leave out the directories themselves.
pub(crate) fn gnu_du() -> bool {
    let version = Command::new("du").arg("--version").output();
    let gnu = version.is_ok_and(|output| output.stdout.starts_with(b"du (GNU coreutils)"));
    if !gnu {
        eprintln!("skipped: there is no GNU du to compare with");
    }
    gnu
}

/// Whether GNU du counts the lengths of directories, too.
pub(crate) fn counts_lengths_of_directories() -> bool {
    let scene = Scene::new();
    let output = scene.command("du").args(["-b", "."]).output().unwrap();
    let counts = output.stdout != b"0\t.\n" || fs::metadata(scene.path(".")).unwrap().len() == 0;
    if !counts {
        eprintln!("skipped: this GNU du leaves directories out of --apparent-size");
    }
    counts
}
