//! `kumiki ab`: two commands in interleaved pairs.

use anyhow::{Context, Result};
use kumiki_ab::command::{self, Answer, Options, Program};

use crate::Verdict;

pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let own = std::env::current_exe().context("asking for the name of this program's file")?;
    let program = Program { name: "kumiki", words: "kumiki ab", kumiki: &own };
    Ok(match command::run(options, program)? {
        Answer::Status(code) => Verdict::Exit(code),
        Answer::Interrupted(signal) => Verdict::Interrupted(signal),
    })
}
