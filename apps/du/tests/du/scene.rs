//! Trees to count, and GNU du to compare with.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use tempfile::TempDir;

/// The program under test.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_kumiki-du");

/// A user without rights.
const NOBODY: u32 = 65534;

/// Variables that say how du prints.
const VARIABLES: [&str; 7] =
    ["DU_BLOCK_SIZE", "BLOCK_SIZE", "BLOCKSIZE", "POSIXLY_CORRECT", "TIME_STYLE", "TZ", "TZDIR"];

/// A directory in which both programs run.
pub(crate) struct Scene {
    folder: TempDir,
    /// Of both programs.
    pub(crate) locale: &'static str,
    /// Both run as somebody who may not read everything.
    pub(crate) without_rights: bool,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::within(std::env::temp_dir()).unwrap()
    }

    /// A scene in `folder`.
    pub(crate) fn within(folder: impl AsRef<Path>) -> std::io::Result<Self> {
        let folder = tempfile::tempdir_in(folder)?;
        // For programs that run as somebody else.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        Ok(Scene { folder, locale: "C", without_rights: false })
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

    /// A program to be run in this directory; ours is called by the end of its path.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program.as_ref());
        if program.as_ref() == OURS {
            command.arg0("kumiki-du");
        }
        command.current_dir(self.folder.path()).env("LC_ALL", self.locale);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        command
    }

    /// The outcome of GNU du and of ours, called by the same name.
    fn run(&self, program: &OsStr, args: &[&OsStr], prepare: &dyn Fn(&mut Command)) -> Output {
        let mut command = self.command(program);
        command.arg0("du").args(args);
        if self.without_rights && rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        prepare(&mut command);
        command.output().unwrap()
    }

    /// Both programs print and say the same, and end the same.
    pub(crate) fn same<S: AsRef<OsStr>>(&self, args: &[S]) {
        self.same_by(args, |_| ());
    }

    /// The same, with something done to each command first.
    pub(crate) fn same_by<S: AsRef<OsStr>>(&self, args: &[S], prepare: impl Fn(&mut Command)) {
        let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        let ours = if self.without_rights { for_anybody() } else { OURS.into() };
        let run_ours = |who: &str| {
            let args = [&[OsStr::new(who)], &args[..]].concat();
            self.run(&ours, &args, &prepare)
        };
        // A file system may still be moving blocks about, and /dev changes.
        for _ in 0..5 {
            let before = self.run("du".as_ref(), &args, &prepare);
            let ours = ["--plain", "--parallel"].map(run_ours);
            if ours.iter().all(|ours| *ours == before) {
                return;
            }
            if before == self.run("du".as_ref(), &args, &prepare) {
                ours.iter().for_each(|ours| compare(ours, &before, &args));
            }
        }
        panic!("GNU du never gave the same lines twice, nor ours the same as it, for {args:?}");
    }
}

/// Our program where somebody without rights can run it, wherever it was built.
pub(crate) fn for_anybody() -> OsString {
    static COPY: LazyLock<(TempDir, OsString)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let copy = folder.path().join("du");
        fs::copy(OURS, &copy).unwrap();
        (folder, copy.into_os_string())
    });
    COPY.1.clone()
}

/// Ours against theirs.
fn compare(ours: &Output, theirs: &Output, args: &[&OsStr]) {
    let end = if args.iter().any(|arg| *arg == "-0") { 0 } else { b'\n' };
    let (here, there) = (lines(&ours.stdout, end), lines(&theirs.stdout, end));
    let surplus = |of: &[String], other: &[String]| -> Vec<String> {
        let surplus = of.iter().filter(|line| !other.contains(line));
        surplus.take(5).map(|line| line.chars().take(200).collect()).collect()
    };
    assert!(
        here == there,
        "{args:?}: only here {:?}, only from GNU du {:?}, or in another order; {}",
        surplus(&here, &there),
        surplus(&there, &here),
        said(ours),
    );
    let told = |output: &Output| output.stderr.escape_ascii().to_string();
    assert_eq!(told(ours), told(theirs), "{args:?}");
    assert_eq!(ours.status, theirs.status, "{args:?}: {}", said(ours));
}

/// What a program wrote to stderr.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of an output, in which nothing is invisible.
pub(crate) fn lines(bytes: &[u8], end: u8) -> Vec<String> {
    let lines = bytes.split_inclusive(|&byte| byte == end);
    lines.map(|line| line.escape_ascii().to_string()).collect()
}

/// A release of GNU's coreutils.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gnu {
    major: u32,
    minor: u32,
}

impl Gnu {
    /// The one that `du` is from; `None`, and a line that says so, if it is not GNU's.
    pub(crate) fn here() -> Option<Gnu> {
        let output = Command::new("du").arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let gnu = text.lines().next().and_then(|line| {
            let (major, minor) =
                line.strip_prefix("du (GNU coreutils) ")?.trim().split_once('.')?;
            let minor = minor.split(|c: char| !c.is_ascii_digit()).next()?;
            Some(Gnu { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        if gnu.is_none() {
            eprintln!("skipped: there is no GNU du to compare with");
        }
        gnu
    }

    fn since(self, minor: u32) -> bool {
        self >= Gnu { major: 9, minor }
    }

    /// Directories and devices have no length for `--apparent-size`.
    pub(crate) fn knows_lengths_of_files_only(self) -> bool {
        self.since(2)
    }

    /// A depth below 0 is taken for 0.
    pub(crate) fn takes_negative_depths(self) -> bool {
        self.since(4) && !self.since(12)
    }

    /// Depths end with what an offset can hold, and thresholds may be in R and Q.
    pub(crate) fn has_signed_depths(self) -> bool {
        self.since(2)
    }

    /// A name with an apostrophe is quoted right when it also has to be escaped.
    pub(crate) fn quotes_apostrophes(self) -> bool {
        self.since(7)
    }

    /// Numbers may be binary: `0b11`. That is the C library's doing, from 2.38 on.
    pub(crate) fn reads_binary() -> bool {
        let mut command = Command::new("du");
        command.args(["-s", "-B0b1", "/dev/null"]);
        command.output().is_ok_and(|output| output.status.success())
    }
}

/// Whether there is a GNU du.
pub(crate) fn gnu_du() -> bool {
    Gnu::here().is_some()
}
