//! A visit to a case in a process of its own, as `kumiki measure` asks for it: no command for
//! a person.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use kumiki_measure::case::{Choice, Level};
use kumiki_measure::sampler::{Apart, answer};

use crate::{output, select};

/// Word by which this program knows that it is asked for a visit.
pub(crate) const WORD: &str = "measure-visit";

/// Command line that asks this program for visits, with the sizes that a person chose.
pub(crate) fn apart(sizes: Option<&[u64]>) -> Apart {
    // Not by its name, under which an upgrade puts another version while we measure, or nothing.
    let program = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let sizes = sizes.into_iter().flatten().map(u64::to_string);
    Apart { program, args: std::iter::once(WORD.to_owned()).chain(sizes).collect() }
}

/// The visit.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    // Else lists of processes call it `exe`, as the file that it was started by.
    let _ = std::fs::write("/proc/self/comm", "kumiki");
    let sizes: Vec<u64> = words.filter_map(|word| word.to_str()?.parse().ok()).collect();
    let sizes = (!sizes.is_empty()).then_some(sizes);
    let cases = select::catalogue(&Choice { level: Some(Level::Full), sizes });
    match answer(&cases) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::talk(error);
            ExitCode::from(2)
        }
    }
}
