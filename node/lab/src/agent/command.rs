//! One command: a process of the machine at the end of a stream.

use std::process::Command;

use kumiki_stream::exec::{Ending, Program, Refusal, Running};
use kumiki_stream::{Kind, MuxLink, Result, Stream};

use super::say;
use crate::wish::mark;

/// Runs a command until it has ended or its client is gone, marks that in the kernel log, and says how it has
/// ended.
pub(super) fn serve(program: &Program, number: u64, mut stream: Stream<MuxLink>) -> Result<()> {
    let ending = match started(program) {
        Ok(running) => running.attend(&mut stream),
        Err(refusal) => Ok(Some(Ending::refused(refusal.status, refusal.reason))),
    };
    say(&mark(number));
    match ending? {
        Some(ending) => stream.send(Kind::Close, &ending),
        None => Ok(()),
    }
}

fn started(program: &Program) -> std::result::Result<Running, Refusal> {
    let Some((name, arguments)) = program.words.split_first() else {
        return Err(Refusal { status: 126, reason: "no program is named".to_owned() });
    };
    let mut command = Command::new(name);
    command.args(arguments).envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = &program.folder {
        command.current_dir(folder);
    }
    Running::start(&mut command, program.terminal)
        .map_err(|error| Refusal::of(&error, format!("{}: {error}", name.to_string_lossy())))
}
