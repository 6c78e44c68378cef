//! One command: a process, its streams, and how it ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::lab::Lab;
use super::say;
use crate::credit::Credit;
use crate::frame::{Exit, Message, Size, Start, mark};

/// A command under way.
pub(super) struct AgentCommand {
    /// Its process group is of the same number.
    pid: Pid,
    input: Option<Sender<Vec<u8>>>,
    terminal: Option<File>,
    credit: Arc<Credit>,
    over: Arc<AtomicBool>,
}

/// An output of a command, and what is sent of it.
type OutputStream = (File, fn(Vec<u8>) -> Message);

/// The ends of a command's streams that are ours.
struct Streams {
    input: File,
    outputs: Vec<OutputStream>,
    terminal: Option<File>,
}

impl AgentCommand {
    /// Starts a command; what keeps it from running is told to the lab.
    pub(super) fn start(stream: u32, start: &Start, lab: &Lab) -> Option<AgentCommand> {
        match spawn(start) {
            Ok((child, streams)) => Some(Self::watch(stream, start.mark, child, streams, lab)),
            Err(error) => {
                // As shells say it: 127 not found, 126 not to be run.
                let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
                let word = start.words.first().map(|word| String::from_utf8_lossy(word));
                let reason = format!("{}: {error}", word.unwrap_or_default());
                say(&mark(start.mark));
                lab.send(stream, Message::Failed(code, reason));
                None
            }
        }
    }

    fn watch(stream: u32, number: u64, child: Child, streams: Streams, lab: &Lab) -> AgentCommand {
        let pid = Pid::from_child(&child);
        let credit = Arc::new(Credit::new());
        let over = Arc::new(AtomicBool::new(false));
        let (input, to_write) = channel();
        let writer = lab.clone();
        thread::spawn(move || feed(stream, streams.input, &to_write, &writer));
        let exited = Arc::new(AtomicBool::new(false));
        let pumps: Vec<_> = streams
            .outputs
            .into_iter()
            .map(|(output, message)| {
                let pump = Pump {
                    stream,
                    message,
                    lab: lab.clone(),
                    credit: credit.clone(),
                    exited: exited.clone(),
                };
                thread::spawn(move || pump.run(output))
            })
            .collect();
        let (lab, ended) = (lab.clone(), over.clone());
        thread::spawn(move || {
            let mut child = child;
            let status = child.wait();
            exited.store(true, Ordering::Release);
            pumps.into_iter().for_each(|pump| drop(pump.join()));
            say(&mark(number));
            ended.store(true, Ordering::Release);
            lab.send(
                stream,
                status.map_or_else(|error| Message::Failed(126, error.to_string()), exit),
            );
        });
        AgentCommand { pid, input: Some(input), terminal: streams.terminal, credit, over }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Passes on what the lab says to a command.
    pub(super) fn tell(&mut self, message: Message) {
        match message {
            Message::Input(bytes) => {
                if let Some(input) = &self.input {
                    let _ = input.send(bytes);
                }
            }
            Message::InputEnd => self.input = None,
            Message::Credit(bytes) => self.credit.earn(bytes),
            Message::Signal(number) if !self.is_over() => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    let _ = kill_process_group(self.pid, signal);
                }
            }
            Message::Resize(size) => {
                if let Some(terminal) = &self.terminal {
                    let _ = tcsetwinsize(terminal, winsize(size));
                }
            }
            _ => {}
        }
    }
}

fn spawn(start: &Start) -> std::io::Result<(Child, Streams)> {
    let missing = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "no program is named");
    let words: Vec<&OsStr> = start.words.iter().map(|word| OsStr::from_bytes(word)).collect();
    let (program, arguments) = words.split_first().ok_or_else(missing)?;
    let Some(size) = start.terminal else {
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = with_environment(command, start).spawn()?;
        let input = File::from(OwnedFd::from(child.stdin.take().expect("it was asked for")));
        let output = File::from(OwnedFd::from(child.stdout.take().expect("it was asked for")));
        let error = File::from(OwnedFd::from(child.stderr.take().expect("it was asked for")));
        let outputs: Vec<OutputStream> = vec![(output, Message::Output), (error, Message::Error)];
        return Ok((child, Streams { input, outputs, terminal: None }));
    };
    found(program)?;
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?;
    tcsetwinsize(&terminal, winsize(size))?;
    let slave = File::options().read(true).write(true).open(OsStr::from_bytes(name.as_bytes()))?;
    // setsid gives the new session this terminal, and the group its number.
    let mut command = Command::new("/bin/busybox");
    command.args(["setsid", "-c"]).args(&words);
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let child = with_environment(command, start).spawn()?;
    let terminal = File::from(terminal);
    let outputs: Vec<OutputStream> = vec![(terminal.try_clone()?, Message::Output)];
    Ok((child, Streams { input: terminal.try_clone()?, outputs, terminal: Some(terminal) }))
}

fn with_environment(mut command: Command, start: &Start) -> Command {
    let variables = start.environment.iter();
    command
        .envs(variables.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))));
    command
}

/// Checks that a program is there: setsid would say so on the terminal only.
fn found(program: &OsStr) -> std::io::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = if program.as_bytes().contains(&b'/') {
        Path::new(program).exists()
    } else {
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    };
    if there { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
}

/// Writes what the lab sends to the command, and says how much was taken.
fn feed(stream: u32, mut input: File, bytes: &Receiver<Vec<u8>>, lab: &Lab) {
    for chunk in bytes {
        // A command that reads no more loses it, and the lab may go on.
        let _ = input.write_all(&chunk);
        lab.send(stream, Message::Credit(chunk.len() as u32));
    }
}

/// Passes one output of a command on to the lab.
struct Pump {
    stream: u32,
    message: fn(Vec<u8>) -> Message,
    lab: Lab,
    credit: Arc<Credit>,
    exited: Arc<AtomicBool>,
}

impl Pump {
    fn run(&self, mut output: File) {
        let mut buffer = vec![0; crate::frame::CHUNK];
        while let Some(bytes) = self.credit.wait() {
            // Looked at before the pipe: what the command wrote is in it then.
            let exited = self.exited.load(Ordering::Acquire);
            if !readable(&output) {
                // Children that it left behind may keep the pipe open for long.
                if exited {
                    return;
                }
                continue;
            }
            match output.read(&mut buffer[..bytes]) {
                Ok(0) => return,
                Ok(read) => {
                    self.credit.spend(read);
                    self.lab.send(self.stream, (self.message)(buffer[..read].to_vec()));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A terminal whose last user is gone reads as EIO.
                Err(_) => return,
            }
        }
    }
}

/// True if there is something to read, an end of file included; waits a little.
fn readable(output: &File) -> bool {
    let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let mut fds = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
    matches!(poll(&mut fds, Some(&wait)), Ok(1..))
}

fn exit(status: ExitStatus) -> Message {
    Message::Ended(match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code as u8),
        (None, signal) => Exit::Signal(signal.unwrap_or_default() as u8),
    })
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}
