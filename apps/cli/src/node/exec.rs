//! A program in a node, with this process's streams, signals and terminal.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kumiki_node::{Client, Ending, Order, Orders, Run, Session, Size, wake_if_idle};
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::stdin;
use rustix::termios::isatty;
use signal_hook::consts::{
    SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::terminal::{self, Raw};
use crate::{Verdict, interrupt, output, started};

/// Signals that end a program unless it handles them.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
const OTHERS: [i32; 4] = [SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT];

/// Size of a terminal that nobody looks at.
const DEFAULT_SIZE: Size = Size { rows: 24, columns: 80 };

#[derive(Debug, Args)]
pub(super) struct Exec {
    name: String,
    /// Give the command a terminal
    /// [default: if standard input and output are one]
    #[arg(short, long, overrides_with = "no_tty")]
    tty: bool,
    /// Hand what is typed to the command; without this it stays for the shell, as of docker and
    /// kubectl. Standard input that is no terminal is the command's in any case
    #[arg(short, long)]
    interactive: bool,
    /// Give the command no terminal
    #[arg(short = 'T', long, overrides_with = "tty")]
    no_tty: bool,
    /// Set a variable; NAME alone takes its value from here; may be given several
    /// times
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Folder to run the command in
    #[arg(short = 'w', long, alias = "workdir", value_name = "FOLDER", default_value = "/")]
    cwd: String,
    /// Use the host's own channel, which is free when others have all the rest
    #[arg(long, hide = true)]
    by_host: bool,
    /// Run the HEALTHCHECK of the node's image
    #[arg(long, hide = true, conflicts_with = "words")]
    health: bool,
    /// Program and arguments; what follows the program is its own
    #[arg(trailing_var_arg = true, required_unless_present = "health", value_name = "COMMAND")]
    words: Vec<String>,
}

pub(super) fn exec(exec: Exec) -> Result<Verdict> {
    let with_terminal = exec.tty || (!exec.no_tty && terminal::is_attended());
    let mut run = Run { health: exec.health, ..Run::of(&exec.words) };
    run.program.environment = exec.env.iter().filter_map(|text| variable(text)).collect();
    run.program.folder = Some(exec.cwd.into());
    if with_terminal {
        give_terminal(&mut run);
    }
    wake_if_idle(&exec.name)?;
    let open = if exec.by_host { Session::open_by_host } else { Session::open };
    let session = open(&exec.name)?;
    // Lines that were typed ahead are the next commands'.
    let reads = exec.interactive || !isatty(stdin());
    let ending = match attend(&run, reads, |client| session.run(&run, client)) {
        Ok(ending) => ending,
        Err(error) => return started::in_node(error),
    };
    Ok(Verdict::Exit(match ending {
        Ending::Exited(status) => status,
        Ending::Signalled(signal) => 128_u8.wrapping_add(signal),
        Ending::Left => 0,
    }))
}

/// The node's log as it grows, and a shell.
pub(super) fn console(name: &str) -> Result<Verdict> {
    wake_if_idle(name)?;
    let session = Session::open(name)?;
    ensure!(
        terminal::is_attended(),
        "standard input and output are no terminal; `kumiki node exec {name}` needs none"
    );
    let mut run = Run::of(["sh"]);
    give_terminal(&mut run);
    output::talk(format_args!("console of node {name}; Ctrl-] leaves it"));
    let ending = attend(&run, true, |client| session.console(&run, client))?;
    // Below what the node has shown last.
    let _ = writeln!(io::stderr());
    let how = if ending == Ending::Left { "left" } else { "ended the shell of" };
    output::talk(format_args!("{how} node {name}, which goes on"));
    Ok(Verdict::Fine)
}

/// NAME=VALUE, or NAME with its value here, if it has one.
fn variable(text: &str) -> Option<(OsString, OsString)> {
    match text.split_once('=') {
        Some((name, value)) => Some((name.into(), value.into())),
        None => std::env::var_os(text).map(|value| (text.into(), value)),
    }
}

fn give_terminal(run: &mut Run) {
    let program = &mut run.program;
    program.terminal = Some(size());
    if !program.environment.iter().any(|(name, _)| name == "TERM") {
        program.environment.push(("TERM".into(), terminal::kind().into()));
    }
}

fn size() -> Size {
    terminal::size().map_or(DEFAULT_SIZE, |(rows, columns)| Size { rows, columns })
}

/// Has `run` attend the program with this process's streams, its input if `reads`, and signals;
/// the terminal is as it was when this returns.
fn attend(
    program: &Run,
    reads: bool,
    run: impl FnOnce(&mut Client<'_>) -> kumiki_node::Result<Ending>,
) -> Result<Ending> {
    let mut signals = Signals::new(program.program.terminal.is_some(), reads)?;
    let input = io::stdin();
    let (mut out, mut err) = (output::Stream, io::stderr());
    let mut client = Client {
        input: reads.then(|| input.as_fd()),
        out: &mut out,
        err: &mut err,
        orders: Some(&mut signals),
    };
    Ok(run(&mut client)?)
}

/// Signals to this process become the program's.
struct Signals {
    caught: SignalDelivery<UnixStream, SignalOnly>,
    /// Caught and not handed out yet.
    waiting: VecDeque<i32>,
    /// This process's own terminal, if it stands for the program's.
    raw: Option<Raw>,
    has_terminal: bool,
    /// Once the program is asked to stop, this process stops.
    stops: bool,
    has_resumed: bool,
    endings: u32,
}

impl Signals {
    fn new(has_terminal: bool, reads: bool) -> Result<Self> {
        let is_ignored = interrupt::ignored();
        let window = has_terminal.then_some(SIGWINCH);
        let watched = ENDING.into_iter().chain(OTHERS).chain(window);
        let watched: Vec<i32> = watched.filter(|&signal| !is_ignored(signal)).collect();
        let caught = UnixStream::pair()
            .and_then(|(read, write)| SignalDelivery::with_pipe(read, write, SignalOnly, watched))
            .context("installing the handlers for signals")?;
        let raw = (has_terminal && reads && isatty(stdin())).then(Raw::new).transpose()?;
        Ok(Signals {
            caught,
            waiting: VecDeque::new(),
            raw,
            has_terminal,
            stops: false,
            has_resumed: false,
            endings: 0,
        })
    }

    /// Stops this process, as the terminal's driver would have, until it is
    /// continued.
    fn stop(&mut self) -> io::Result<()> {
        if let Some(raw) = &self.raw {
            raw.leave();
        }
        kill_process(getpid(), Signal::STOP)?;
        if let Some(raw) = &self.raw {
            raw.enter().map_err(io::Error::other)?;
        }
        self.has_resumed = self.has_terminal;
        Ok(())
    }

    /// The second one that would end a program ends this: the module sees that
    /// and ends the command.
    fn count(&mut self, signal: i32) {
        if ENDING.contains(&signal) {
            self.endings += 1;
            if self.endings > 1 {
                if let Some(raw) = &self.raw {
                    raw.leave();
                }
                std::process::exit(128 + signal);
            }
        }
    }
}

impl Orders for Signals {
    fn ready(&self) -> BorrowedFd<'_> {
        self.caught.get_read().as_fd()
    }

    fn next(&mut self) -> io::Result<Option<Order>> {
        if std::mem::take(&mut self.stops) {
            self.stop()?;
        }
        self.waiting.extend(self.caught.pending());
        // Its size may have changed while this process did not look.
        if std::mem::take(&mut self.has_resumed) {
            return Ok(Some(Order::Resize(size())));
        }
        let Some(signal) = self.waiting.pop_front() else { return Ok(None) };
        self.count(signal);
        self.stops = signal == SIGTSTP;
        Ok(Some(match signal {
            SIGWINCH => Order::Resize(size()),
            signal => Order::Signal(signal),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_its_own_value_or_that_of_here() {
        assert_eq!(variable("A=b=c"), Some(("A".into(), "b=c".into())));
        assert_eq!(variable("A="), Some(("A".into(), OsString::new())));
        assert_eq!(variable("KUMIKI_NO_SUCH_VARIABLE"), None);
        assert!(variable("PATH").is_some());
    }
}
