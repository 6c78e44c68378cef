//! Running a command in a machine.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::credit::Credit;
use crate::error::{Error, Result};
use crate::frame::{Exit, Message, Size, Start};
use crate::guest::{Guest, Stream};

/// Time that a command may take to end once it has been killed.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A command to run, much like [`std::process::Command`].
#[must_use]
pub struct Command {
    guest: Guest,
    start: Start,
    limit: Option<Duration>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("limit", &self.limit).finish_non_exhaustive()
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

/// A command under way.
pub struct Running {
    stream: Stream,
    credit: Arc<Credit>,
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
    number: u32,
}

impl Guest {
    /// A command to run in it: the program, and arguments to come.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        Command::new(self.clone(), program.as_ref())
    }
}

impl Command {
    pub(crate) fn new(guest: Guest, program: &OsStr) -> Self {
        let start = Start {
            words: vec![program.as_bytes().to_vec()],
            mark: fastrand::u64(1..),
            ..Start::default()
        };
        Command { guest, start, limit: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.start.words.push(argument.as_ref().as_bytes().to_vec());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let pair = (name.as_ref().as_bytes().to_vec(), value.as_ref().as_bytes().to_vec());
        self.start.environment.push(pair);
        self
    }

    /// Gives it a terminal of so many rows and columns, not pipes.
    pub fn terminal(mut self, rows: u16, columns: u16) -> Self {
        self.start.terminal = Some(Size { rows, columns });
        self
    }

    /// Kills it after so long, which is an error.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Starts it.
    pub fn spawn(self) -> Result<Running> {
        let stream = self.guest.open()?;
        let log_from = self.guest.log().length();
        let what = String::from_utf8_lossy(&self.start.words.join(&b' ')).into_owned();
        let mark = self.start.mark;
        stream.send(Message::Start(self.start))?;
        let credit = Arc::new(Credit::new());
        Ok(Running { stream, credit, log_from, mark, what, limit: self.limit })
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
        Control { guest: self.stream.guest().clone(), number: self.stream.number() }
    }

    /// Passes its streams on until it ends. A program that is not there has the
    /// exit code 127, as for a shell, and says so on `stderr`.
    pub fn pass(
        self,
        input: impl Read + Send + 'static,
        mut stdout: impl Write,
        mut stderr: impl Write,
    ) -> Result<Outcome> {
        let (credit, control) = (self.credit.clone(), self.control());
        // Not joined: it may be reading from a terminal at which nobody types.
        thread::spawn(move || feed(input, &credit, &control));
        let ended = self.listen(&mut stdout, &mut stderr);
        self.credit.end();
        if ended.is_err() {
            // Whatever keeps us from listening, the command is not to go on.
            let _ = self.control().signal(Signal::KILL.as_raw());
        }
        let exit = ended?;
        let faults = self.stream.guest().log().faults(self.log_from, self.mark);
        Ok(Outcome { exit, faults })
    }

    fn listen(&self, stdout: &mut impl Write, stderr: &mut impl Write) -> Result<Exit> {
        let mut limit = self.limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut killed = false;
        loop {
            let Some(message) = self.stream.receive(limit)? else {
                if killed {
                    return Err(self.too_long());
                }
                self.stream.send(Message::Signal(Signal::KILL.as_raw()))?;
                (killed, limit) = (true, Some(Instant::now() + KILL_LIMIT));
                continue;
            };
            match message {
                Message::Output(bytes) => self.passed_on(stdout, &bytes, "standard output")?,
                Message::Error(bytes) => self.passed_on(stderr, &bytes, "standard error")?,
                Message::Credit(bytes) => self.credit.earn(bytes),
                Message::Ended(_) if killed => return Err(self.too_long()),
                Message::Ended(exit) => return Ok(exit),
                Message::Failed(code, reason) => {
                    let line = format!("{reason}\n");
                    let written = stderr.write_all(line.as_bytes());
                    written.map_err(|source| Error::Stream { what: "standard error", source })?;
                    return Ok(Exit::Code(code));
                }
                other => return Err(Error::Agent(format!("it said {other:?} of a command"))),
            }
        }
    }

    fn passed_on(&self, to: &mut impl Write, bytes: &[u8], what: &'static str) -> Result<()> {
        to.write_all(bytes)
            .and_then(|()| to.flush())
            .map_err(|source| Error::Stream { what, source })?;
        self.stream.send(Message::Credit(bytes.len() as u32))
    }

    fn too_long(&self) -> Error {
        let limit = self.limit.unwrap_or_default();
        Error::TimeLimit { what: format!("the command `{}`", self.what), limit }
    }
}

/// Sends what is read to the command, as far as it takes it.
fn feed(mut input: impl Read, credit: &Credit, control: &Control) {
    let mut buffer = vec![0; crate::frame::CHUNK];
    while let Some(bytes) = credit.wait() {
        match input.read(&mut buffer[..bytes]) {
            Ok(0) => break,
            Ok(read) => {
                credit.spend(read);
                if control.tell(Message::Input(buffer[..read].to_vec())).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let _ = control.tell(Message::InputEnd);
}

impl Control {
    /// Sends a signal to the command and its children.
    pub fn signal(&self, number: i32) -> Result<()> {
        self.tell(Message::Signal(number)).map_err(|_| self.guest.ended())
    }

    /// Its terminal has another size now.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let size = Size { rows, columns };
        self.tell(Message::Resize(size)).map_err(|_| self.guest.ended())
    }

    fn tell(&self, message: Message) -> std::io::Result<()> {
        self.guest.send(self.number, message)
    }
}
