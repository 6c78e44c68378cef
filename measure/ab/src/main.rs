//! `kumiki-ab`: is B slower than A? The command of `kumiki ab` as a program of its own.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use kumiki_ab::command::{self, Answer, Options, Program};
use kumiki_sys::sentence::with_causes;
use kumiki_sys::signals::restore_child_signal;
use kumiki_terminal::output;

/// Its name, and the words by which it compares.
const NAME: &str = "kumiki-ab";
/// Exit status of who writes to a pipe that nobody reads: 128 and SIGPIPE.
const UNREAD: u8 = 141;

/// Is B slower than A? Two commands in interleaved pairs, with a verdict that holds.
///
/// `kumiki-ab -- CMD… --- CMD…`, or one command under two settings:
/// `kumiki-ab --env A=1 --vs A=2 -- CMD…`.
///
/// Columns: `quiet`, the time of a run that other programs do not disturb; `user` and `kernel`, its
/// processor time; `memory`, its peak, – where it had no more than the program that started
/// it; `faults`, its page faults.
///
/// Exit status: 0 B is no worse, 1 B is slower, 2 an error, 3 it cannot be said; the
/// output says what would clear it up. 130 ended by Ctrl-C, after the verdict so far.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100,
    override_usage = "kumiki-ab [OPTIONS] -- <CMD>... --- <CMD>...\n       \
        kumiki-ab [OPTIONS] --env <NAME=VALUE> --vs <NAME=VALUE> -- <CMD>...")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    restore_child_signal();
    let outcome = match Cli::try_parse() {
        Ok(cli) => kumiki_sys::event::to_file()
            .map_err(anyhow::Error::from)
            .and_then(|()| compared(&cli.options)),
        // Help and version are data; clap would print them and not look whether they arrived.
        Err(shown) if !shown.use_stderr() => output::help(&shown).map(|()| 0),
        Err(wrong) => wrong.exit(),
    };
    outcome.map_or_else(|error| failed(&error), ExitCode::from)
}

/// Exit status of a comparison. A case of `kumiki measure` is measured by the `kumiki` in PATH.
fn compared(options: &Options) -> anyhow::Result<u8> {
    let program = Program { name: NAME, words: NAME, kumiki: Path::new("kumiki") };
    Ok(match command::run(options, program)? {
        Answer::Status(code) => code,
        Answer::Interrupted(signal) => signal.exit_status(),
    })
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // Whoever read our output has had enough: `kumiki-ab … | head`.
    if output::is_broken_pipe(error) {
        return ExitCode::from(UNREAD);
    }
    output::talk(NAME, with_causes(error.as_ref()));
    ExitCode::from(2)
}
