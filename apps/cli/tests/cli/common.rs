//! A person's home: a folder with a database, a folder for temporary files and
//! whatever a test puts there.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;

/// Nothing here takes this long; a test that hangs ends.
const PATIENCE: Duration = Duration::from_secs(300);

/// A quick measurement of few cases, whose rows are of one cpu.
pub(crate) const MEASURE: [&str; 5] = ["measure", "entry.", "--quick", "--time", "1"];

pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Home(folder)
    }

    /// A file or folder in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        // As the kernel names a process's folder.
        self.0.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// `kumiki` with these arguments, to be started.
    pub(crate) fn start(&self, args: &[&str]) -> std::process::Command {
        // As a terminal starts it, also where we were started to ignore Ctrl-C.
        let signals = ["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_kumiki")];
        self.run_by("/usr/bin/env", &[&signals, args].concat())
    }

    /// Another program in the same surroundings.
    pub(crate) fn run_by(&self, program: &str, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command
            .args(args)
            .current_dir(self.path(""))
            .env("HOME", self.path(""))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("TMPDIR", self.path("tmp"))
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    /// `kumiki` with these arguments, to be run and looked at.
    pub(crate) fn kumiki(&self, args: &[&str]) -> Command {
        let mut command = Command::from_std(self.start(args));
        command.timeout(PATIENCE);
        command
    }

    /// Starts it in a process group of its own, as a shell does.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.start(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.spawn().unwrap()
    }

    /// Standard output of a run that succeeds.
    pub(crate) fn prints(&self, args: &[&str]) -> String {
        text(self.kumiki(args).assert().code(0).get_output().stdout.clone())
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.prints(args)).unwrap()
    }

    /// The message of a run that fails; it prints no data.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        failure(&mut self.kumiki(args))
    }

    /// Fails if it does not fail, or the message lacks one of `parts`.
    #[track_caller]
    pub(crate) fn refuses(&self, args: &[&str], parts: &[&str]) {
        says(&self.fails(args), parts);
    }

    /// Measures and names the result.
    pub(crate) fn measured(label: &str) -> Self {
        let home = Home::new();
        home.prints(&[&MEASURE[..], &["--label", label]].concat());
        home
    }

    /// What is kept in the database, the newest last.
    pub(crate) fn runs(&self) -> Vec<Value> {
        let list = self.json(&["results", "ls", "--json"]);
        let (references, runs): (Vec<Value>, Vec<Value>) =
            list.as_array().unwrap().iter().cloned().partition(|one| one["reference"] == true);
        assert!(!references.is_empty(), "references are listed whatever is kept");
        runs
    }

    /// Rows of the newest run, 0 if there is none yet.
    pub(crate) fn rows(&self) -> u64 {
        self.runs().last().map_or(0, |run| run["rows"].as_u64().unwrap())
    }

    /// The name of a reference, as a result is named.
    pub(crate) fn reference(&self) -> String {
        let list = self.json(&["results", "ls", "--json"]);
        list[0]["id"].as_str().unwrap().to_owned()
    }

    /// Waits for a run that has stored some rows; one that ends before is shown.
    pub(crate) fn wait_for_rows(&self, run: &mut Child, rows: u64) {
        wait_until("a run stores its rows", || {
            if let Some(status) = run.try_wait().unwrap() {
                let talk = std::io::read_to_string(run.stderr.take().unwrap()).unwrap();
                panic!("the run ended before it stored {rows} rows: {status}: {talk}");
            }
            self.rows() >= rows
        });
    }

    /// Processes that were started here, by anything that was started here.
    pub(crate) fn processes(&self) -> Vec<PathBuf> {
        let here = self.path("");
        let here = here.components().as_path();
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let inside = |process: &PathBuf| {
            fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(here))
        };
        processes.filter(inside).collect()
    }
}

/// The message of a run that fails; it prints no data.
pub(crate) fn failure(command: &mut Command) -> String {
    let assert = command.assert().code(2).stdout("");
    let message = text(assert.get_output().stderr.clone());
    assert!(!message.contains("panicked"), "{message}");
    message
}

/// Fails if `message` lacks one of `parts`.
#[track_caller]
pub(crate) fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Says why a test ends early.
pub(crate) fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// What a folder holds.
pub(crate) fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
