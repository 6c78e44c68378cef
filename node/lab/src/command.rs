//! Running a command in a machine.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use kumiki_stream::exec::{self, Beside, Client, Ending, Program, Refusal, Size};
use kumiki_stream::{Kind, MuxHandle, MuxLink, Stream};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::wish::Wish;

/// A command to run, much like [`std::process::Command`].
#[must_use]
pub struct Command {
    guest: Guest,
    program: Program,
    limit: Option<Duration>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exit by itself, with this code.
    Code(u8),
    /// End by this signal.
    Signal(u8),
}

impl Exit {
    /// The code that a shell gives for it: 128 and the signal's number if it was
    /// ended by one.
    pub fn code(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(number) => 128_u8.wrapping_add(number),
        }
    }
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// End of the command.
    pub exit: Exit,
    /// Lines of the kernel log, from its start to its end, that show that
    /// something is wrong in the kernel.
    pub faults: Vec<String>,
}

/// A command's outcome with what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// End of the command.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// A command under way. Dropped, it is ended.
pub struct Running {
    guest: Guest,
    stream: Stream<MuxLink>,
    /// The kernel log's length when it began.
    log_from: u64,
    mark: u64,
    what: String,
    limit: Option<Duration>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("what", &self.what)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Control of a running command from elsewhere, e.g. a signal handler.
#[derive(Clone, Debug)]
pub struct Control {
    guest: Guest,
    handle: MuxHandle,
}

impl Guest {
    /// A command to run in it: the program, and arguments to come.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        Command::new(self.clone(), program.as_ref())
    }
}

impl Command {
    pub(crate) fn new(guest: Guest, program: &OsStr) -> Self {
        let program = Program { words: vec![program.to_owned()], ..Program::default() };
        Command { guest, program, limit: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.program.words.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.program.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Gives it a terminal of so many rows and columns, not pipes.
    pub fn terminal(mut self, rows: u16, columns: u16) -> Self {
        self.program.terminal = Some(Size { rows, columns });
        self
    }

    /// Kills it after so long, which is an error.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Starts it.
    pub fn spawn(self) -> Result<Running> {
        let Command { guest, program, limit } = self;
        let log_from = guest.log().length();
        let what = program.words.join(OsStr::new(" ")).to_string_lossy().into_owned();
        let mark = fastrand::u64(1..);
        let stream = Stream::new(guest.open(&Wish::Run(program, mark))?);
        Ok(Running { guest, stream, log_from, mark, what, limit })
    }

    /// Runs it without input and keeps what it prints. Faults that the kernel
    /// log shows are an error.
    pub fn output(self) -> Result<Output> {
        self.output_of(std::io::empty())
    }

    /// Runs it with this input, and returns its output.
    pub fn output_of(self, input: impl Read + Send + 'static) -> Result<Output> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let outcome = self.spawn()?.pass(input, &mut stdout, &mut stderr)?;
        if outcome.faults.is_empty() {
            Ok(Output { exit: outcome.exit, stdout, stderr })
        } else {
            Err(Error::Faulty { lines: outcome.faults })
        }
    }
}

impl Running {
    /// Handle by which it is told something while [`Running::pass`] waits.
    pub fn control(&self) -> Control {
        Control { guest: self.guest.clone(), handle: self.stream.link().handle() }
    }

    /// Passes its streams on until it ends. A program that is not there has the
    /// exit code 127, as for a shell, and says so on `stderr`.
    pub fn pass(
        mut self,
        mut input: impl Read + Send + 'static,
        mut stdout: impl Write,
        mut stderr: impl Write,
    ) -> Result<Outcome> {
        let pipe = io::pipe().map_err(|source| Error::Stream { what: "standard input", source })?;
        let (reader, mut writer) = pipe;
        // Not joined: it may be reading from a terminal at which nobody types.
        thread::spawn(move || io::copy(&mut input, &mut writer));
        let input = Some(reader.as_fd());
        let mut client = Client { input, out: &mut stdout, err: &mut stderr, orders: None };
        let mut beside = Beside { limit: self.limit, ..Beside::default() };
        // Whatever keeps us from listening, the command ends with its stream.
        let outcome = client.attend(&mut self.stream, &mut beside);
        let exit = match outcome.map_err(|error| self.guest.failed(error))? {
            exec::Outcome::Ended(Ending::Exited(code)) => Exit::Code(code),
            exec::Outcome::Ended(Ending::Signalled(number)) => Exit::Signal(number),
            exec::Outcome::Ended(Ending::Refused(Refusal { status, reason })) => {
                writeln!(stderr, "{reason}")
                    .map_err(|source| Error::Stream { what: "standard error", source })?;
                Exit::Code(status)
            }
            // No key leaves it.
            exec::Outcome::TimedOut | exec::Outcome::Left => return Err(self.too_long()),
        };
        let faults = self.guest.log().faults(self.log_from, self.mark);
        Ok(Outcome { exit, faults })
    }

    fn too_long(&self) -> Error {
        let limit = self.limit.unwrap_or_default();
        Error::TimeLimit { what: format!("the command `{}`", self.what), limit }
    }
}

impl Control {
    /// Sends a signal to the command and its children.
    pub fn signal(&self, number: i32) -> Result<()> {
        self.tell(Kind::Signal, &number)
    }

    /// Its terminal has another size now.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        self.tell(Kind::Resize, &Size { rows, columns })
    }

    fn tell(&self, kind: Kind, what: &impl Serialize) -> Result<()> {
        self.handle.send(kind, what).map_err(|error| self.guest.failed(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_the_code_that_shells_give() {
        assert_eq!(Exit::Signal(9).code(), 137);
        assert_eq!(Exit::Code(255).code(), 255);
    }
}
