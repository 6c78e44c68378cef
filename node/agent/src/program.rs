//! One program that the host runs here: started, fed, listened to, ended.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use kumiki_node_wire::frame::{CHUNK_BYTES, FrameKind, Program, STAYS, Size, receive};
use kumiki_node_wire::module::{abi, doorbell};
use kumiki_node_wire::window::{Channel, Window};
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::termios::tcgetpgrp;

use super::cpus;
use super::ending::Telling;
use super::root;
use super::sleep::{self, Talks, Turn};
use super::streams::{Streams, would_block};
use super::watching;
use super::{environment, keeper};
use crate::lent;
use crate::{Error, ErrorKind, Result};

const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Serves the channel until its client has closed it.
pub(super) fn serve(window: &Window, turn: Turn, talks: &Talks) -> Result<()> {
    let bell = super::open()?;
    let talk = Talk { channel: window.channel(turn.number()), bell: &bell };
    let outcome = match talk.first_frame() {
        Ok(Wish::Done) => Ok(()),
        // It is somebody else's channel when the node has slept.
        Ok(Wish::Keep { stays }) => match sleep::sleep(window, &bell, (talks, turn), stays) {
            Ok(()) => return Ok(()),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    if let Err(error) = &outcome
        && talk.is_open()
    {
        // The client may be gone, which is then the smaller trouble.
        let _ = talk.send(FrameKind::Failed, error.to_string().as_bytes());
    }
    while talk.is_open() {
        talk.wait(&[])?;
    }
    outcome
}

/// Rest of a client's wish.
enum Wish {
    Done,
    Keep { stays: bool },
}

struct Talk<'a> {
    channel: Channel<'a>,
    bell: &'a File,
}

impl Talk<'_> {
    fn is_open(&self) -> bool {
        self.channel.state() == abi::CHANNEL_OPEN
    }

    fn wait(&self, others: &[(BorrowedFd<'_>, PollFlags)]) -> Result<()> {
        doorbell::wait(self.bell, others, LOOK_AGAIN)
            .map_err(|error| Error::os("waiting for the host", error))
    }

    /// Sends a frame, when there is room; whether somebody is there to read it.
    fn send(&self, kind: FrameKind, body: &[u8]) -> Result<bool> {
        while self.is_open() {
            if self.channel.send_to_host(kind, body)? {
                super::ring(self.bell)?;
                return Ok(true);
            }
            self.wait(&[])?;
        }
        Ok(false)
    }

    fn first_frame(&self) -> Result<Wish> {
        while self.is_open() {
            match receive(&self.channel.to_node)? {
                None => self.wait(&[])?,
                Some((FrameKind::Exec, body)) => return self.run(&body).map(|()| Wish::Done),
                Some((FrameKind::Lend, body)) => {
                    lent::keep(&body)?;
                    return self.send(FrameKind::Exited, &0u32.to_le_bytes()).map(|_| Wish::Done);
                }
                Some((FrameKind::Watch, body)) => {
                    watching::take(&body)?;
                    return self.send(FrameKind::Exited, &0u32.to_le_bytes()).map(|_| Wish::Done);
                }
                Some((FrameKind::Cpus, body)) => {
                    cpus::carry_out(&body, self.bell)?;
                    return self.send(FrameKind::Exited, &0u32.to_le_bytes()).map(|_| Wish::Done);
                }
                Some((FrameKind::Shutdown, _)) => {
                    return super::ending::ask_for_power_off().map(|()| Wish::Done);
                }
                Some((FrameKind::Keep, body)) => return Ok(Wish::Keep { stays: body == STAYS }),
                Some((other, _)) => {
                    return Err(Error::Protocol(format!("{other:?} at the beginning")));
                }
            }
        }
        Ok(Wish::Done)
    }

    fn run(&self, body: &[u8]) -> Result<()> {
        let program: Program = serde_json::from_slice(body)
            .map_err(|error| Error::Protocol(format!("no program: {error}")))?;
        // One that cannot be read was told of at the start.
        let image = keeper::program().ok().flatten();
        let words = if program.health {
            image
                .as_ref()
                .map(|image| image.health.clone())
                .filter(|words| !words.is_empty())
                .ok_or_else(|| {
                    Error::refused(ErrorKind::NotFound, "its image names no HEALTHCHECK")
                })?
        } else {
            program.words
        };
        let (name, arguments) = words
            .split_first()
            .ok_or_else(|| Error::Protocol("a program without a name".into()))?;
        let mut command = Command::new(name);
        command.args(arguments);
        if !program.beside_root {
            environment::of(None, image).tell(&mut command);
        }
        command.envs(program.environment);
        super::spared::not(&mut command);
        let folder = program.folder.as_deref().unwrap_or("/");
        if program.beside_root {
            root::tell(&mut command);
        } else {
            root::enter(&mut command, folder, None)?;
        }
        // Until its end is told.
        let _telling = Telling::begin();
        let (child, streams) = Streams::spawn(&mut command, program.terminal)?;
        self.send(FrameKind::Started, &child.id().to_le_bytes())?;
        let mut running = Running::new(child, streams)?;
        let status = self.attend(&mut running);
        // Whatever happened, nothing of it stays behind unattended.
        let status = match status {
            Ok(Some(status)) => status,
            Ok(None) => return running.kill(),
            Err(error) => {
                running.kill()?;
                return Err(error);
            }
        };
        let (kind, number) = match (status.code(), status.signal()) {
            (Some(code), _) => (FrameKind::Exited, code),
            (None, signal) => (FrameKind::Signalled, signal.unwrap_or(0)),
        };
        self.send(kind, &(number as u32).to_le_bytes())?;
        Ok(())
    }

    /// Passes bytes on until the program has ended, or `None`: the client is gone.
    fn attend(&self, running: &mut Running) -> Result<Option<ExitStatus>> {
        loop {
            if !self.is_open() {
                return Ok(None);
            }
            // Looked at before its output: what it wrote last is there then.
            let ended = running.child.try_wait().map_err(|error| Error::os("waiting", error))?;
            self.obey(running)?;
            running.streams.feed();
            let passed = self.pass_output(running)?;
            if passed {
                continue;
            }
            if let Some(status) = ended {
                return Ok(Some(status));
            }
            let mut others = vec![(running.pidfd.as_fd(), PollFlags::IN)];
            let streams = &running.streams;
            let outputs = streams.out.iter().chain(&streams.err);
            others.extend(outputs.map(|output| (output.as_fd(), PollFlags::IN)));
            if !streams.pending.is_empty() {
                others.extend(streams.input.iter().map(|input| (input.as_fd(), PollFlags::OUT)));
            }
            self.wait(&others)?;
        }
    }

    /// Frames of the client. Input is taken only while the last of it is written,
    /// so a program that reads nothing makes its client wait.
    fn obey(&self, running: &mut Running) -> Result<()> {
        for number in self.channel.take_signals() {
            running.signal(number)?;
        }
        while running.streams.pending.is_empty() {
            match receive(&self.channel.to_node)? {
                None => return Ok(()),
                Some((FrameKind::Stdin, bytes)) => {
                    if running.streams.input.is_some() {
                        running.streams.pending = bytes;
                    }
                    // Room for more.
                    super::ring(self.bell)?;
                }
                Some((FrameKind::StdinEnd, _)) => running.streams.end_input(),
                Some((FrameKind::Resize, body)) => running.streams.resize(Size::of_body(&body)?),
                Some((other, _)) => {
                    return Err(Error::Protocol(format!("{other:?} while a program runs")));
                }
            }
            running.streams.feed();
        }
        Ok(())
    }

    /// Passes on what can be read now, as far as there is room; whether there
    /// was anything.
    fn pass_output(&self, running: &mut Running) -> Result<bool> {
        let mut passed = false;
        for kind in [FrameKind::Stdout, FrameKind::Stderr] {
            let streams = &mut running.streams;
            let stream =
                if kind == FrameKind::Stdout { &mut streams.out } else { &mut streams.err };
            let Some(file) = stream else { continue };
            let mut bytes = vec![0; CHUNK_BYTES];
            match file.read(&mut bytes) {
                Ok(0) => *stream = None,
                Ok(read) => {
                    passed = true;
                    if !self.send(kind, &bytes[..read])? {
                        return Ok(false);
                    }
                }
                Err(error) if would_block(&error) => {}
                // So a terminal says that nobody has its other side any more.
                Err(_) if streams.terminal.is_some() => *stream = None,
                Err(error) => return Err(Error::os("reading the program's output", error)),
            }
        }
        Ok(passed)
    }
}

struct Running {
    child: Child,
    pidfd: OwnedFd,
    streams: Streams,
}

impl Running {
    fn new(child: Child, streams: Streams) -> Result<Self> {
        let pidfd = pidfd_open(group(&child)?, PidfdFlags::empty())
            .map_err(|error| Error::os("opening the program's pidfd", error))?;
        Ok(Running { child, pidfd, streams })
    }

    fn signal(&mut self, number: u32) -> Result<()> {
        if let Some(signal) = Signal::from_named_raw(number as i32) {
            // It may have ended just now.
            let _ = kill_process_group(group(&self.child)?, signal);
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        // What a shell has put in front of itself has a group of its own.
        let front = self.streams.terminal.as_ref().and_then(|terminal| tcgetpgrp(terminal).ok());
        if let Some(front) = front {
            let _ = kill_process_group(front, Signal::KILL);
        }
        let _ = kill_process_group(group(&self.child)?, Signal::KILL);
        self.child.wait().map(drop).map_err(|error| Error::os("waiting", error))
    }
}

/// A program's process group, which it leads.
fn group(child: &Child) -> Result<Pid> {
    Pid::from_raw(child.id() as i32).ok_or_else(|| Error::Protocol("process 0".into()))
}
