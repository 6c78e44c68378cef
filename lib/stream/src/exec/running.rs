//! A program that runs here for the other end of a stream.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use rustix::termios::tcgetpgrp;

use super::ends::Ends;
use super::{Ending, Size};
use crate::error::Error;
use crate::link::{Link, Other};
use crate::stream::{Message, Stream};

/// Frames of the client that are looked at between two looks at the program.
const TURN: usize = 16;

/// A program that was started: fed, listened to, ended.
#[derive(Debug)]
pub struct Running {
    /// Number of its process and of the group that this leads, its own until it is waited for.
    group: Pid,
    pidfd: OwnedFd,
    ends: Ends,
    owner: Owner,
}

/// Owner of a program: waits for it, and ends it when its client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Attendant and owner are one.
    Here,
    /// Another one, that has started it.
    Elsewhere,
}

/// A program that somebody else has started, waits for and ends.
#[derive(Debug)]
pub struct Started {
    /// Number of its process, which leads a group.
    pub group: Pid,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// Pipe to its standard input.
    pub input: Option<OwnedFd>,
    /// Pipe from its standard output.
    pub out: Option<OwnedFd>,
    /// Pipe from its standard error.
    pub err: Option<OwnedFd>,
}

/// State of the client.
#[derive(PartialEq, Eq)]
enum Seen {
    /// Nothing more to say for now.
    All,
    /// More to say, maybe.
    Some,
    /// Gone: the stream is closed.
    Gone,
}

impl Running {
    /// Starts the program with pipes, or with a terminal of this size. Its streams are set here; the rest is
    /// the command's.
    ///
    /// # Errors
    /// The system's reason.
    pub fn start(command: &mut Command, terminal: Option<Size>) -> io::Result<Self> {
        let (child, ends) = Ends::spawn(command, terminal)?;
        // It is waited for by this descriptor.
        let group = Pid::from_child(&child);
        let pidfd = pidfd_open(group, PidfdFlags::empty()).inspect_err(|_| {
            let _ = kill_process_group(group, Signal::KILL);
        })?;
        Ok(Running { group, pidfd, ends, owner: Owner::Here })
    }

    /// Attends a program that somebody else has started.
    ///
    /// # Errors
    /// A pipe that cannot be made one that never waits.
    pub fn of(started: Started) -> io::Result<Self> {
        let Started { group, pidfd, input, out, err } = started;
        let ends = Ends::of_pipes(input, out, err)?;
        Ok(Running { group, pidfd, ends, owner: Owner::Elsewhere })
    }

    /// Passes bytes on until the program has ended, and says how; or until the client is gone, and ends it.
    ///
    /// # Errors
    /// As of the link, and what the kernel refuses; the program has ended then.
    pub fn attend<L: Link>(mut self, stream: &mut Stream<L>) -> Result<Option<Ending>, L::Error> {
        // Whatever happens, nothing of it stays behind unattended: it ends with `self`.
        let attended = self.pass(stream)?;
        Ok(if attended { Some(self.reap()?) } else { None })
    }

    /// Passes bytes on; true when the program has ended, false when the client is gone.
    fn pass<L: Link>(&mut self, stream: &mut Stream<L>) -> Result<bool, L::Error> {
        loop {
            // Looked at before its output: what it wrote last is there then.
            let ended = self.has_ended()?;
            let seen = self.obey(stream)?;
            if seen == Seen::Gone {
                return Ok(false);
            }
            for whole in self.ends.feed() {
                stream.passed_on(whole)?;
            }
            let passed = self.pass_output(stream)?;
            if passed || seen == Seen::Some {
                continue;
            }
            // What it left behind may keep its streams open for long.
            if ended && !self.ends.is_readable() {
                return Ok(true);
            }
            let mut others: Vec<Other<'_>> = Vec::new();
            if !ended {
                others.push((self.pidfd.as_fd(), PollFlags::IN));
            }
            if stream.room() > 0 {
                let outputs = self.ends.outputs.iter();
                others.extend(outputs.map(|(file, _)| (file.as_fd(), PollFlags::IN)));
            }
            if self.ends.has_input() {
                others.extend(self.ends.input.iter().map(|input| (input.as_fd(), PollFlags::OUT)));
            }
            stream.link().wait(&others, None)?;
        }
    }

    /// Does what the client says.
    fn obey<L: Link>(&mut self, stream: &mut Stream<L>) -> Result<Seen, L::Error> {
        for _ in 0..TURN {
            match stream.receive()? {
                None => return Ok(Seen::All),
                Some(Message::Data(_, bytes)) => self.ends.put(bytes),
                Some(Message::End) => self.ends.put_end(),
                Some(Message::Signal(number)) => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        // Of its group some may be there when it has ended.
                        let _ = kill_process_group(self.group, signal);
                    }
                }
                Some(Message::Resize(size)) => self.ends.resize(size),
                Some(Message::Close(_)) => return Ok(Seen::Gone),
                Some(Message::Open(_)) => {
                    return Err(Error::Protocol("an opening while a program runs".into()).into());
                }
            }
        }
        Ok(Seen::Some)
    }

    /// Passes on what can be read now, as far as there is credit; whether there was anything.
    fn pass_output<L: Link>(&mut self, stream: &mut Stream<L>) -> Result<bool, L::Error> {
        let mut passed = false;
        // From behind: an output that has ended is taken out.
        for which in (0..self.ends.outputs.len()).rev() {
            let room = stream.room();
            if room == 0 {
                break;
            }
            if let Some((kind, bytes)) = self.ends.read(which, room) {
                passed = true;
                stream.send_data(kind, &bytes)?;
            }
        }
        Ok(passed)
    }

    fn has_ended(&self) -> Result<bool, Error> {
        // It is not waited for, so that its number stays its group's.
        let looked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), looked) {
            Ok(status) => Ok(status.is_some()),
            Err(Errno::INTR) => Ok(false),
            // Its owner has waited for it.
            Err(Errno::CHILD) => Ok(true),
            Err(error) => Err(Error::os("looking whether the program has ended", error)),
        }
    }

    fn reap(&self) -> Result<Ending, Error> {
        let how = match self.owner {
            Owner::Here => WaitIdOptions::EXITED,
            Owner::Elsewhere => WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        };
        loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), how) {
                Err(Errno::INTR) => {}
                Err(Errno::CHILD) => {
                    return Ok(Ending::refused(1, "nobody knows how it has ended"));
                }
                Err(error) => return Err(Error::os("waiting for the program", error)),
                Ok(status) => {
                    let code = status.as_ref().and_then(|status| status.exit_status());
                    let signal = status.as_ref().and_then(|status| status.terminating_signal());
                    // Both are eight bits; see wait(2).
                    return Ok(match signal {
                        Some(signal) => Ending::Signalled(signal as u8),
                        None => Ending::Exited(code.unwrap_or_default() as u8),
                    });
                }
            }
        }
    }
}

/// Ends the program and all that it has started in its group, unless it was waited for or is somebody else's.
impl Drop for Running {
    fn drop(&mut self) {
        if self.owner == Owner::Elsewhere {
            return;
        }
        let looked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::PidFd(self.pidfd.as_fd()), looked), Err(Errno::CHILD)) {
            return;
        }
        // What a shell has put in front of itself has a group of its own.
        let front = self.ends.terminal.as_ref().and_then(|terminal| tcgetpgrp(terminal).ok());
        if let Some(front) = front {
            let _ = kill_process_group(front, Signal::KILL);
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.reap();
    }
}
