//! What Rust's test harness prints, line by line as it comes.
//!
//! It tells how long a program took, not how long a test did (that is not stable yet).
//! But it starts tests in the order of their names as soon as one of its threads is free,
//! and prints a line when one has ended; so it is known when each began.

use std::time::Duration;

/// One test that has run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    pub(super) name: String,
    /// From when a thread was free for it until its result was printed.
    pub(super) took: Duration,
    pub(super) failed: bool,
}

/// Reads the output of test programs, one after the other.
#[derive(Debug)]
pub(super) struct Reader {
    threads: usize,
    passed: usize,
    failed: usize,
    programs: usize,
    /// Of the program that is running: since when, and the results so far.
    running: Option<(Duration, Vec<Ended>)>,
    /// Said to take long, and not ended since.
    late: Vec<String>,
    tests: Vec<Test>,
}

#[derive(Debug)]
struct Ended {
    name: String,
    at: Duration,
    ignored: bool,
    failed: bool,
}

impl Reader {
    /// Of programs that run `threads` tests at a time.
    pub(super) fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        Reader {
            threads,
            passed: 0,
            failed: 0,
            programs: 0,
            running: None,
            late: Vec::new(),
            tests: Vec::new(),
        }
    }

    /// Takes a line that was printed `at` after the start; those of anything else but the
    /// harness count for nothing.
    pub(super) fn line(&mut self, at: Duration, line: &str) {
        if is_begin(line) {
            self.programs += 1;
            self.running = Some((at, Vec::new()));
            self.late.clear();
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.count(counts);
            if let Some((begin, ended)) = self.running.take() {
                self.tests.extend(timed(begin, ended, self.threads));
            }
        } else if let Some(name) = late(line) {
            self.late.push(name.to_owned());
        } else if let Some((_, ended)) = &mut self.running
            && let Some(test) = result(at, line)
        {
            self.late.retain(|name| *name != test.name);
            ended.push(test);
        }
    }

    /// Tests that run for more than a minute.
    pub(super) fn late(&self) -> &[String] {
        &self.late
    }

    /// Adds `ok. 3 passed; 0 failed; …`.
    fn count(&mut self, counts: &str) {
        let Some((_, counts)) = counts.split_once(". ") else { return };
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(n, what)| (n.parse::<usize>(), what)) {
                Some((Ok(n), "passed")) => self.passed += n,
                Some((Ok(n), "failed")) => self.failed += n,
                _ => {}
            }
        }
    }

    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// True if any program of the harness has begun.
    pub(super) fn any(&self) -> bool {
        self.programs > 0
    }

    /// True if one has begun and not come to its end.
    pub(super) fn open(&self) -> bool {
        self.running.is_some()
    }

    /// All that have run, also in a program that was cut short.
    pub(super) fn tests(mut self) -> Vec<Test> {
        if let Some((begin, ended)) = self.running.take() {
            self.tests.extend(timed(begin, ended, self.threads));
        }
        self.tests
    }
}

/// `running 12 tests`.
fn is_begin(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|line| line.split_once(' '));
    count.is_some_and(|(n, what)| n.parse::<usize>().is_ok() && matches!(what, "test" | "tests"))
}

/// `test NAME has been running for over 60 seconds`.
fn late(line: &str) -> Option<&str> {
    Some(line.strip_prefix("test ")?.split_once(" has been running for over ")?.0)
}

/// `test NAME ... ok`.
fn result(at: Duration, line: &str) -> Option<Ended> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let ignored = result.starts_with("ignored");
    let failed = result.starts_with("FAILED");
    if !(ignored || failed || result.starts_with("ok")) {
        return None;
    }
    Some(Ended { name: name.to_owned(), at, ignored, failed })
}

/// The results of one program, with the time that each took.
fn timed(begin: Duration, ended: Vec<Ended>, threads: usize) -> Vec<Test> {
    let ends: Vec<_> = ended.iter().map(|test| test.at).collect();
    let mut by_name = ended;
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let started = |nth: usize| nth.checked_sub(threads).map_or(begin, |free| ends[free]);
    let tests = by_name.into_iter().enumerate().filter(|(_, test)| !test.ignored);
    tests
        .map(|(nth, Ended { name, at, failed, .. })| Test {
            name,
            took: at.saturating_sub(started(nth)),
            failed,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(threads: usize, lines: &[(u64, &str)]) -> Reader {
        let mut reader = Reader::new(threads);
        for (at, line) in lines {
            reader.line(Duration::from_secs(*at), line);
        }
        reader
    }

    fn took(reader: Reader) -> Vec<(String, u64)> {
        reader.tests().into_iter().map(|test| (test.name, test.took.as_secs())).collect()
    }

    #[test]
    fn summaries_add_up() {
        let reader = read(
            2,
            &[
                (0, "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out"),
                (0, "test result: FAILED. 12 passed; 2 failed; 0 ignored; finished in 0.01s"),
                (0, "test tests::summaries_add_up ... ok"),
                (0, "7 passed; 7 failed"),
            ],
        );
        assert_eq!((reader.passed(), reader.failed()), (15, 2));
    }

    #[test]
    fn a_test_begins_when_a_thread_is_free() {
        let reader = read(
            2,
            &[
                (1, "running 4 tests"),
                (3, "test b ... ok"),
                (4, "test c ... FAILED"),
                (6, "test a ... ok"),
                (7, "test d ... ok"),
                (7, "test result: FAILED. 3 passed; 1 failed; 0 ignored"),
            ],
        );
        // a and b at 1; b's end lets c begin, and c's lets d.
        let expected = [("a", 5), ("b", 2), ("c", 1), ("d", 3)];
        assert_eq!(took(reader), expected.map(|(name, s)| (name.to_owned(), s)));
    }

    #[test]
    fn an_ignored_test_takes_a_turn_and_no_time() {
        let reader = read(
            1,
            &[
                (0, "running 3 tests"),
                (2, "test a ... ok"),
                (2, "test b ... ignored, needs two machines"),
                (5, "test c - should panic ... ok"),
                (5, "test result: ok. 2 passed; 0 failed; 1 ignored"),
            ],
        );
        let expected = [("a", 2), ("c - should panic", 3)];
        assert_eq!(took(reader), expected.map(|(name, s)| (name.to_owned(), s)));
    }

    #[test]
    fn what_is_late_has_not_ended() {
        let late = " has been running for over 60 seconds";
        let lines = [format!("test a{late}"), format!("test b{late}"), "test b ... ok".into()];
        let mut reader = read(2, &[(0, "running 2 tests")]);
        lines.iter().for_each(|line| reader.line(Duration::from_secs(60), line));
        assert_eq!(reader.late(), ["a"]);
    }

    #[test]
    fn a_program_that_ends_within_its_tests_is_noticed() {
        let cut = read(1, &[(0, "running 2 tests"), (1, "test a ... ok")]);
        assert!(cut.open() && cut.any());
        assert_eq!(took(cut), [("a".to_owned(), 1)]);
        assert!(!read(1, &[(0, "running late"), (0, "test x ... maybe")]).any());
    }
}
