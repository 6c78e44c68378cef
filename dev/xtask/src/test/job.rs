//! One test program, or one command that runs some: started, read, judged.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::{announce, text};

use super::libtest::{Reader, Test};

/// Nothing printed for so long: it hangs. Builds and models are far quicker.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// What a program that has ended may leave in the pipe is read at once; a process of its
/// own that it has left behind may hold the pipe open.
const REST: Duration = Duration::from_secs(1);

/// Guess for a cargo that builds and runs some.
const CARGO_SECONDS: u32 = 40;

/// Command, and how it is run.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) command: Command,
    /// Nothing may run beside it.
    pub(super) alone: bool,
    /// About how long it takes, if that is long.
    pub(super) seconds: u32,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) tests: Vec<Test>,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) took: Duration,
    /// All that it printed.
    pub(super) output: String,
    /// What went wrong beside failed tests.
    pub(super) fault: Option<String>,
}

impl Outcome {
    pub(super) fn good(&self) -> bool {
        self.failed == 0 && self.fault.is_none()
    }
}

impl From<Command> for Job {
    /// A cargo that builds and runs test programs.
    fn from(command: Command) -> Self {
        Job { name: text(&command), command, alone: false, seconds: CARGO_SECONDS }
    }
}

impl Job {
    /// Hands arguments to the test programs: how many tests run at a time, and which.
    pub(super) fn pass_on(&mut self, threads: usize, filters: &[String]) {
        if self.is_cargo() && self.command.get_args().all(|word| word != "--") {
            self.command.arg("--");
        }
        self.command.arg(format!("--test-threads={threads}")).args(filters);
    }

    /// Whether it is a cargo that builds programs first.
    fn is_cargo(&self) -> bool {
        self.command.get_args().next().is_some_and(|word| word == "test")
    }

    /// Runs it to its end; `threads` tests run at a time.
    pub(super) fn run(&self, threads: usize) -> Outcome {
        if self.is_cargo() {
            announce(&self.command);
        }
        let begin = Instant::now();
        match self.start() {
            Ok((child, lines)) => watch(child, &lines, begin, threads),
            Err(error) => {
                let fault = Some(format!("cannot run `{}`: {error}", text(&self.command)));
                Outcome { failed: 1, fault, ..Outcome::default() }
            }
        }
    }

    fn start(&self) -> io::Result<(Child, Receiver<String>)> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(self.command.get_program());
        command.args(self.command.get_args()).stdin(Stdio::null());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = self.command.get_current_dir() {
            command.current_dir(folder);
        }
        let child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
        Ok((child, lines(reader)))
    }
}

/// The lines of a pipe as they come. The reader is a thread that is not waited for.
fn lines(pipe: PipeReader) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

fn watch(mut child: Child, lines: &Receiver<String>, begin: Instant, threads: usize) -> Outcome {
    let mut reader = Reader::new(threads);
    let mut output = String::new();
    let mut killed = false;
    let mut take = |line: String| {
        reader.line(begin.elapsed(), &line);
        output += &line;
        output.push('\n');
    };
    let mut silent_since = Instant::now();
    let status = loop {
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                take(line);
                silent_since = Instant::now();
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            // It has closed its output, or ended.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(1)),
        }
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if silent_since.elapsed() > PATIENCE => {
                killed = true;
                let _ = child.kill();
                break child.wait();
            }
            Ok(None) => {}
            Err(error) => break Err(error),
        }
    };
    let ended = Instant::now();
    while let Ok(line) = lines.recv_timeout(REST.saturating_sub(ended.elapsed())) {
        take(line);
    }
    let fault = match status {
        _ if killed => Some(format!(
            "killed: it printed nothing for {} s; running: {}",
            PATIENCE.as_secs(),
            reader.late().join(", ")
        )),
        Ok(status) => fault_of(status, &reader),
        Err(error) => Some(format!("waiting for it: {error}")),
    };
    judged(reader, output, fault, begin.elapsed())
}

/// What is wrong with the end of a program, if its tests do not tell it.
fn fault_of(status: ExitStatus, reader: &Reader) -> Option<String> {
    if reader.open() {
        return Some(format!("ended within its tests: {status}"));
    }
    (!status.success() && reader.failed() == 0).then(|| format!("ended badly: {status}"))
}

fn judged(reader: Reader, output: String, fault: Option<String>, took: Duration) -> Outcome {
    let mut outcome = Outcome {
        passed: reader.passed(),
        failed: reader.failed(),
        took,
        output,
        fault,
        tests: Vec::new(),
    };
    // A program without libtest is one test.
    let bare = !reader.any();
    outcome.tests = reader.tests();
    match &outcome.fault {
        Some(_) => outcome.failed += 1,
        None if bare => {
            outcome.passed += 1;
            outcome.tests.push(Test {
                name: String::from("(the whole program)"),
                took,
                failed: false,
            });
        }
        None => {}
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a shell's line.
    fn outcome(line: &str) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        Job { name: line.to_owned(), command, alone: false, seconds: 0 }.run(1)
    }

    const OK: &str = "test result: ok. 2 passed; 0 failed; 0 ignored";

    #[test]
    fn a_program_of_the_harness_is_its_tests() {
        let good = outcome(&format!("echo 'running 2 tests'; echo '{OK}'; echo note >&2"));
        assert!(good.good() && (good.passed, good.failed) == (2, 0), "{good:?}");
        assert!(good.output.contains("note"));
        let bad = "test result: FAILED. 1 passed; 1 failed; 0 ignored";
        let bad = outcome(&format!("echo 'running 2 tests'; echo '{bad}'; exit 101"));
        assert!(!bad.good() && (bad.passed, bad.failed) == (1, 1), "{bad:?}");
    }

    #[test]
    fn a_program_without_the_harness_is_one_test() {
        let good = outcome("echo fine");
        assert!(good.good() && (good.passed, good.tests.len()) == (1, 1), "{good:?}");
        let bad = outcome("exit 3");
        assert!(!bad.good() && (bad.passed, bad.failed) == (0, 1), "{bad:?}");
    }

    #[test]
    fn an_end_that_the_tests_do_not_tell_of_is_a_failure() {
        let cut = outcome("echo 'running 2 tests'; echo 'test a ... ok'");
        assert!(!cut.good() && cut.failed == 1, "{cut:?}");
        let killed = outcome(&format!("echo 'running 2 tests'; echo '{OK}'; kill -9 $$"));
        assert!(killed.fault.is_some_and(|fault| fault.contains("signal: 9")));
        let missing =
            Job { name: "x".into(), command: Command::new("/no/such"), alone: false, seconds: 0 };
        assert!(!missing.run(1).good());
    }

    #[test]
    fn a_process_that_holds_the_pipe_open_is_not_waited_for() {
        let left = outcome("sleep 100 & echo 'running 0 tests'; echo 'test result: ok. 0 passed'");
        assert!(left.good() && left.took < Duration::from_secs(60), "{left:?}");
    }
}
