//! `cargo xtask test`: every test of the workspace, the models of its protocols, and
//! what is promised for aarch64.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::run::{EVERYTHING, announce, cargo, text};
use crate::{aarch64, debian, loom};

/// Installs what the tests need, runs them all, and prints a tally as the
/// last line.
pub(crate) fn test() -> Result<ExitCode> {
    debian::install(debian::TESTS)?;
    debian::install(debian::LAB)?;

    // Without --no-fail-fast a failure would hide the programs after it.
    let everything = EVERYTHING.iter();
    let mut commands: Vec<Command> =
        everything.map(|what| cargo(&format!("test {what} --locked --no-fail-fast"))).collect();
    commands.extend(loom::commands()?);
    commands.extend(aarch64::tests());
    let mut tally = Tally::default();
    let mut good = true;
    for command in &mut commands {
        // A lab that cannot start is a failure here, not something to pass over.
        command.env("KUMIKI_LAB", "required");
        good &= tallied(command, &mut tally)?;
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs tests, adds their summaries, and says whether all went well.
fn tallied(command: &mut Command, tally: &mut Tally) -> Result<bool> {
    announce(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{}`", text(command)))?;
    let stdout = child.stdout.take().expect("stdout was asked for");
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("output of the tests")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.add(&line);
    }
    let status = child.wait().context("waiting for the tests")?;
    if !status.success() {
        eprintln!("error: `{}` failed: {status}", text(command));
    }
    Ok(status.success())
}

/// Sums the summaries of the test programs.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; …`; any other
    /// line adds nothing.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|l| l.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(n, what)| (n.parse::<usize>(), what)) {
                Some((Ok(n), "passed")) => self.passed += n,
                Some((Ok(n), "failed")) => self.failed += n,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_add_up() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        tally.add("test result: FAILED. 12 passed; 2 failed; 0 ignored; finished in 0.01s");
        tally.add("test tests::summaries_add_up ... ok");
        tally.add("7 passed; 7 failed");
        assert_eq!(tally, Tally { passed: 15, failed: 2 });
    }
}
