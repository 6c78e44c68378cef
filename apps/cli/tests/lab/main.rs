//! `kumiki lab` as a person types it. Without QEMU or Debian's packages the
//! tests say so and pass over, unless `KUMIKI_LAB=required`.

mod ahead;
mod kept;
mod once;
mod parasc;
mod power;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A place of its own for the machines of one test.
struct Labs {
    runtime: TempDir,
}

impl Labs {
    /// None where a lab cannot be had.
    fn new() -> Option<Self> {
        // One start for all tests shows it.
        static LACK: OnceLock<Option<String>> = OnceLock::new();
        let labs = Labs { runtime: tempfile::tempdir().unwrap() };
        match LACK.get_or_init(|| labs.lack()) {
            None => Some(labs),
            Some(lack) => {
                eprintln!("skipped: {lack}");
                None
            }
        }
    }

    fn lack(&self) -> Option<String> {
        let output = self.kumiki(&["lab", "run", "--", "true"]);
        if output.status.success() {
            return None;
        }
        let said = text(&output.stderr);
        let lacks =
            ["qemu-system", "cannot be had", "setpriv"].iter().any(|word| said.contains(word));
        let required = std::env::var_os("KUMIKI_LAB").is_some_and(|value| value == "required");
        assert!(lacks && !required, "{said}");
        Some(said)
    }

    fn command(&self, words: &[&str]) -> Command {
        // As a terminal starts it, also where we were started to ignore Ctrl-C.
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(env!("CARGO_BIN_EXE_kumiki"));
        command.args(words).env("XDG_RUNTIME_DIR", self.runtime.path());
        command
    }

    fn kumiki(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs it, checks the exit code, and hands back what it printed.
    fn gives(&self, code: i32, words: &[&str]) -> (String, String) {
        let output = self.kumiki(words);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{words:?}\n{stdout}\n{stderr}");
        (stdout, stderr)
    }

    /// Processes that have a file of ours on their command line.
    fn processes(&self) -> usize {
        let ours = self.runtime.path().to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| text(line).contains(ours)).count()
    }

    /// Folders of machines.
    fn folders(&self) -> Vec<String> {
        let entries = fs::read_dir(self.runtime.path().join("kumiki-lab"));
        let names = entries.into_iter().flatten().flatten();
        let folders = names.filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    fn assert_nothing_is_left(&self) {
        eventually("QEMU ends", || self.processes() == 0);
        assert_eq!(self.folders(), Vec::<String>::new());
    }
}

impl Drop for Labs {
    /// A test that failed leaves no machine either.
    fn drop(&mut self) {
        let _ = self.command(&["lab", "down", "--all"]).output();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn eventually(what: &str, check: impl Fn() -> bool) {
    let begin = Instant::now();
    while !check() {
        assert!(begin.elapsed() < Duration::from_secs(300), "{what}: not within five minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_there(path: &str) -> bool {
    Path::new(path).exists()
}
