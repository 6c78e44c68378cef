//! The `kumiki` command: glue between the command line and the crates that
//! measure, keep, compare and report.
#![forbid(unsafe_code)]

mod ab;
mod ahead;
mod answer;
mod args;
mod benched;
mod compare;
mod disturbed;
mod docs;
mod doctor;
mod duel;
mod failure;
mod groups;
mod image;
mod lab;
mod machine;
mod many;
mod measure;
mod node;
mod output;
mod owners;
mod place;
mod renamed;
mod report;
mod resource;
mod results;
mod run;
mod screen;
mod select;
mod session;
mod size;
mod started;
mod terminal;
mod visit;

use std::process::ExitCode;

use anyhow::Result;
use kumiki_sys::signals::restore_child_signal;
use kumiki_terminal::{destination, duration, interrupt, percent};

use args::Command;

/// Exit status of who writes to a pipe that nobody reads: 128 and SIGPIPE.
const UNREAD: u8 = 141;

/// Finding of a command, apart from errors.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// Success, with the answer no: a regression, nothing that matches.
    Negative,
    /// A person ended it early; what was done is kept.
    Interrupted(interrupt::Signal),
    /// Exit status of a command that we ran for somebody.
    Exit(u8),
}

fn main() -> ExitCode {
    restore_child_signal();
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|word| word == kumiki_lab::agent::WORD).is_some() {
        return kumiki_lab::agent::run(words);
    }
    if words.next_if(|word| word == visit::WORD).is_some() {
        return visit::run(words);
    }
    let (words, former) = renamed::by_todays_names(std::env::args_os().collect());
    former.iter().for_each(output::talk);
    let words = compare::parted(words);
    let outcome = match groups::parse(words) {
        Ok(cli) => {
            let begun = kumiki_sys::event::to_file().map_err(Into::into);
            begun.and_then(|()| failure::check_form()).and_then(|()| dispatch(cli.command))
        }
        // Help and version are data; clap would print them and not look whether they arrived.
        Err(shown) if !shown.use_stderr() => output::help(&shown).map(|()| Verdict::Fine),
        Err(wrong) => wrong.exit(),
    };
    match outcome {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Exit(code)) => ExitCode::from(code),
        Ok(Verdict::Negative) => ExitCode::from(1),
        Ok(Verdict::Interrupted(signal)) => ExitCode::from(signal.exit_status()),
        // Whoever read our output has had enough: `kumiki … | head`. As a shell says of a program
        // that SIGPIPE has ended, which needs no message.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(UNREAD),
        Err(error) => {
            failure::tell(&error);
            ExitCode::from(2)
        }
    }
}

fn dispatch(command: Command) -> Result<Verdict> {
    match command {
        Command::Measure(args) => measure::run(args),
        Command::Results(args) => results::run(args.command),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::Ab(args) => ab::run(&args),
        Command::Duel(args) => duel::run(&args),
        Command::Ahead(args) => ahead::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Many(args) => many::run(&args),
        Command::Lab(args) => lab::run(args),
        Command::Image(args) => image::run(args),
        Command::Node(args) => node::run(args),
        Command::Resource(args) => resource::run(args),
        Command::Place(args) => place::run(args),
        Command::Run(args) => run::run(args),
        Command::Man(args) => docs::man(args),
        Command::Completions(args) => docs::completions(args),
    }
}
