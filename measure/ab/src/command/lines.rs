//! `--file`: the two commands of each line.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kumiki_measure::schema::Machine;
use kumiki_sys::visible::visible;
use kumiki_terminal::interrupt::Interrupt;
use kumiki_terminal::output;

use super::shown::print;
use super::{Answer, BETWEEN, Form, Options, compared, with};
use crate::{Outcome, Side, Verdict};

/// Compares line by line; the worst verdict is the exit status: slower, then what cannot be
/// said.
pub(super) fn run(
    file: &Path,
    args: &Options,
    form: Form,
    machine: &Machine,
    interrupt: &Interrupt,
) -> Result<Answer> {
    if matches!(form, Form::Prometheus | Form::Hyperfine | Form::Hyperfine2) {
        bail!(
            "--file has --format text, markdown and json: a file of the others is of one pair of commands"
        );
    }
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let pairs = read(&text).with_context(|| file.display().to_string())?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for [a, b] in pairs {
        if interrupt.signal().is_some() {
            break;
        }
        let outcome = compared(with(args, a, b), machine.clone(), interrupt)?;
        if form != Form::Json {
            if !outcomes.is_empty() {
                output::line("")?;
            }
            let title = format!("{} --- {}", outcome.a.command(), outcome.b.command());
            output::line(visible(&title))?;
            print(&outcome, form)?;
        }
        outcomes.push(outcome);
    }
    if form == Form::Json {
        output::json(&outcomes)?;
    }
    if let Some(signal) = interrupt.signal() {
        return Ok(Answer::Interrupted(signal));
    }
    let any = |verdict| outcomes.iter().any(|outcome| outcome.verdict == verdict);
    let worst = [Verdict::Slower, Verdict::CannotSay].into_iter().find(|verdict| any(*verdict));
    Ok(Answer::Status(worst.map_or(0, Verdict::exit_status)))
}

/// The commands of each line that is not empty and no comment.
fn read(text: &str) -> Result<Vec<[Side; 2]>> {
    let mut pairs = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let sides: Vec<&str> = line.split(&format!(" {BETWEEN} ")).map(str::trim).collect();
        let [a, b] = sides.as_slice() else {
            bail!("line {}: `---` stands between two commands, once: {line:?}", at + 1);
        };
        pairs.push([a, b].map(|line| Side { shell: true, ..Side::new([*line]) }));
    }
    if pairs.is_empty() {
        bail!("it has no line with two commands, `---` between them");
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_two_commands() {
        let pairs = read("# both\n\nsleep 1 --- sleep 2 | cat\n").unwrap();
        assert_eq!(pairs.len(), 1);
        assert_eq!(pairs[0].each_ref().map(Side::command), ["sleep 1", "sleep 2 | cat"]);
        for (odd, said) in [("sleep 1", "line 1"), ("a --- b --- c", "once"), ("#", "no line")] {
            let error = read(odd).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
