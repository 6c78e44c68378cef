//! Which tests cannot hold.

use std::fmt::Write as _;
use std::fs;

use crate::build::root;
use crate::way::Way;

struct Line {
    test: String,
    place: String,
    reason: String,
}

/// The tests of a suite that cannot hold, and what came of those that ran.
pub(crate) struct Expected {
    lines: Vec<Line>,
    faults: String,
    held: usize,
    differ: usize,
}

impl Expected {
    pub(crate) fn of(suite: &str) -> Expected {
        let path = root().join("tests/capi/peers/expected.txt");
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let split = lines.filter_map(|line| {
            let words: Vec<_> = line.splitn(4, ' ').collect();
            let [its, test, place, reason] = words[..] else { panic!("{path:?}: {line}") };
            let [test, place, reason] = [test, place, reason].map(str::to_owned);
            (its == suite).then_some(Line { test, place, reason })
        });
        Expected { lines: split.collect(), faults: String::new(), held: 0, differ: 0 }
    }

    /// A test has run; `fault` is what it said if it did not hold.
    pub(crate) fn ran(&mut self, test: &str, way: Way, fault: Option<String>) {
        let line = self.lines.iter().find(|line| line.test == test && way.is(&line.place));
        match (line, fault) {
            (None, None) => self.held += 1,
            (Some(_), Some(_)) => self.differ += 1,
            (None, Some(fault)) => {
                writeln!(self.faults, "{test} ({way}) does not hold:\n{fault}").unwrap();
            }
            (Some(line), None) => {
                let reason = &line.reason;
                writeln!(self.faults, "{test} ({way}) holds, yet is expected not to: {reason}")
                    .unwrap();
            }
        }
    }

    pub(crate) fn end(self) {
        println!("{} hold, {} cannot", self.held, self.differ);
        assert!(self.faults.is_empty(), "{}", self.faults);
        assert!(self.held > 0, "nothing has run");
    }
}
