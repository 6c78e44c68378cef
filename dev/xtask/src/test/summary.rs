//! What is said of a run: each program as it ends, then failures and the slowest tests.

use std::fmt::Write;
use std::time::Duration;

use super::job::{Job, Outcome};
use super::libtest::Test;

/// So many tests are named as the slowest.
const SLOWEST: usize = 20;

/// Lines of what a failed test said that are repeated at the end, and characters of each.
const SAID_LINES: usize = 6;
const SAID_CHARS: usize = 400;

/// Sums what the programs did.
#[derive(Debug, Default)]
pub(super) struct Summary {
    passed: usize,
    failed: usize,
    /// Failures, a line each.
    faults: Vec<String>,
    /// All tests, each with its program's name.
    tests: Vec<(String, Test)>,
}

impl Summary {
    /// Adds a job that has ended, and prints how; of a bad one all its output.
    pub(super) fn add(&mut self, job: Job, outcome: Outcome) {
        print!("{}", ended(&job, &outcome));
        self.passed += outcome.passed;
        self.failed += outcome.failed;
        for test in outcome.tests.iter().filter(|test| test.failed) {
            let said = said(&outcome.output, &test.name);
            self.faults.push(format!("{}: {}{said}", job.name, test.name));
        }
        self.faults.extend(outcome.fault.map(|fault| format!("{}: {fault}", job.name)));
        self.tests.extend(outcome.tests.into_iter().map(|test| (job.name.clone(), test)));
    }

    /// True if all went well.
    pub(super) fn good(&self) -> bool {
        self.failed == 0 && self.faults.is_empty()
    }

    /// The slowest tests and, last as they matter most, the failures.
    pub(super) fn text(&self) -> String {
        let mut slowest: Vec<_> = self.tests.iter().collect();
        slowest.sort_by_key(|(_, test)| std::cmp::Reverse(test.took));
        let mut text = String::new();
        if !slowest.is_empty() {
            text += "\nslowest tests, seconds from when a thread was free for one to its result:\n";
        }
        for (program, test) in slowest.into_iter().take(SLOWEST) {
            let _ = writeln!(text, "{:8.2}  {program}: {}", test.took.as_secs_f64(), test.name);
        }
        if !self.faults.is_empty() {
            text += "\nfailed:\n";
        }
        for fault in &self.faults {
            let _ = writeln!(text, "  {fault}");
        }
        text + "\n"
    }

    /// The last line.
    pub(super) fn tally(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

/// The first lines of what a failed test of the harness said, beneath its name: who sees only the end of a long output
/// has them, too.
fn said(output: &str, test: &str) -> String {
    let Some((_, after)) = output.split_once(&format!("---- {test} stdout ----")) else {
        return String::new();
    };
    let end = |line: &&str| {
        line.starts_with("stack backtrace:")
            || line.starts_with("note: ")
            || line.starts_with("---- ")
    };
    let lines = after.lines().filter(|line| !line.is_empty()).take_while(|line| !end(line));
    let mut text = String::new();
    for line in lines.take(SAID_LINES) {
        text += "\n    ";
        text.extend(line.chars().take(SAID_CHARS));
    }
    text
}

fn ended(job: &Job, outcome: &Outcome) -> String {
    let Outcome { passed, failed, took, output, fault, .. } = outcome;
    let counts = format!("{passed} passed, {failed} failed in {}", seconds(*took));
    let name = &job.name;
    if outcome.good() {
        return format!("ok      {name}: {counts}\n");
    }
    let fault = fault.as_ref().map_or(String::new(), |fault| format!("; {fault}"));
    format!("{output}FAILED  {name}: {counts}{fault}\n")
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn job(name: &str) -> Job {
        Job { name: name.to_owned(), command: Command::new("true"), alone: false, seconds: 0 }
    }

    fn test(name: &str, took: u64, failed: bool) -> Test {
        Test { name: name.to_owned(), took: Duration::from_secs(took), failed }
    }

    #[test]
    fn failures_are_named_and_slow_tests_in_order() {
        let mut summary = Summary::default();
        let tests = vec![test("quick", 1, false), test("slow", 9, false), test("wrong", 3, true)];
        summary.add(job("kumiki-a"), Outcome { passed: 2, failed: 1, tests, ..Outcome::default() });
        assert!(!summary.good());
        let text = summary.text();
        let (slow, quick) = (text.find("9.00  kumiki-a: slow"), text.find("1.00  kumiki-a: quick"));
        assert!(slow.is_some() && slow < quick, "{text}");
        assert!(text.ends_with("failed:\n  kumiki-a: wrong\n\n"), "{text}");
        assert_eq!(summary.tally(), "2 passed, 1 failed");
    }

    #[test]
    fn what_a_failed_test_said_stands_beneath_its_name() {
        let output = "running 2 tests\ntest other ... FAILED\ntest wrong ... FAILED\n\nfailures:\n\n\
            ---- other stdout ----\nnothing of this\n\n---- wrong stdout ----\n\n\
            thread 'wrong' panicked at a.rs:3:4:\nleft: 213\nstack backtrace:\n   0: std\n";
        let tests = vec![test("wrong", 3, true)];
        let mut summary = Summary::default();
        let output = output.to_owned();
        summary.add(job("a"), Outcome { failed: 1, tests, output, ..Outcome::default() });
        let expected =
            "failed:\n  a: wrong\n    thread 'wrong' panicked at a.rs:3:4:\n    left: 213\n\n";
        assert!(summary.text().ends_with(expected), "{}", summary.text());
    }

    #[test]
    fn no_more_than_twenty_are_named() {
        let mut summary = Summary::default();
        let tests = (0..30).map(|n| test(&format!("t{n}"), n, false)).collect();
        summary.add(job("a"), Outcome { passed: 30, tests, ..Outcome::default() });
        let text = summary.text();
        assert_eq!(text.matches(" a: t").count(), SLOWEST);
        assert!(text.contains("a: t29\n") && !text.contains("a: t9\n"), "{text}");
        assert!(summary.good());
    }

    #[test]
    fn a_bad_program_shows_all_its_output() {
        let fault = Some("ended badly: signal: 9".to_owned());
        let outcome = Outcome { output: "last words\n".to_owned(), fault, ..Outcome::default() };
        assert!(!outcome.good());
        assert_eq!(
            ended(&job("a"), &outcome),
            "last words\nFAILED  a: 0 passed, 0 failed in 0.0 s; ended badly: signal: 9\n"
        );
    }
}
