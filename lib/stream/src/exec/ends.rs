//! A program's ends here: three pipes, or one terminal.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{SpecialCodeIndex, Winsize, tcgetattr, tcsetwinsize};

use super::Size;
use crate::frame::Kind;

/// Key for the end of input at a terminal whose settings cannot be read.
const END_OF_TRANSMISSION: u8 = 4;

#[derive(Debug)]
pub(super) struct Ends {
    pub(super) input: Option<File>,
    /// Outputs of the program, and the kind of frame for each.
    pub(super) outputs: Vec<(File, Kind)>,
    /// The side of a terminal that shows and types.
    pub(super) terminal: Option<File>,
    pub(super) pending: Pending,
}

/// Input that the program has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    parts: VecDeque<Part>,
    /// Bytes of the first part that were written.
    written: usize,
}

#[derive(Debug)]
enum Part {
    /// Bytes of one frame.
    Bytes(Vec<u8>),
    /// Nothing comes behind these.
    End,
}

impl Ends {
    /// Starts the program with these, in a process group of its own, so that a signal reaches all that
    /// it has started.
    pub(super) fn spawn(command: &mut Command, size: Option<Size>) -> io::Result<(Child, Self)> {
        let Some(size) = size else {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.process_group(0).spawn()?;
            let (input, out) = (child.stdin.take(), child.stdout.take());
            let err = child.stderr.take().map(OwnedFd::from);
            let ends = Ends::of_pipes(input.map(OwnedFd::from), out.map(OwnedFd::from), err)?;
            return Ok((child, ends));
        };
        let (terminal, line) = pair(size).map_err(|error| {
            io::Error::other(format!("opening a terminal (is /dev/pts there?): {error}"))
        })?;
        command.stdin(line.try_clone()?).stdout(line.try_clone()?).stderr(line);
        // SAFETY: between fork and exec this makes two system calls and touches neither memory that
        // another thread may hold nor a lock.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
            })
        };
        let child = command.spawn();
        // The last of its ends here, or its end would never be seen.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child?;
        let terminal = ready(terminal)?;
        let (input, out) = (Some(terminal.try_clone()?), terminal.try_clone()?);
        let (outputs, terminal) = (vec![(out, Kind::Output)], Some(terminal));
        Ok((child, Ends { input, outputs, terminal, pending: Pending::default() }))
    }

    /// The ends of pipes of a program that was started elsewhere.
    pub(super) fn of_pipes(
        input: Option<OwnedFd>,
        out: Option<OwnedFd>,
        err: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let input = input.map(ready).transpose()?;
        let out = out.map(|pipe| Ok((ready(pipe)?, Kind::Output)));
        let err = err.map(|pipe| Ok((ready(pipe)?, Kind::Errors)));
        let outputs = out.into_iter().chain(err).collect::<io::Result<_>>()?;
        Ok(Ends { input, outputs, terminal: None, pending: Pending::default() })
    }

    /// More input, as it came in a frame.
    pub(super) fn put(&mut self, bytes: Vec<u8>) {
        self.pending.parts.push_back(Part::Bytes(bytes));
    }

    /// No more input.
    pub(super) fn put_end(&mut self) {
        self.pending.parts.push_back(Part::End);
    }

    /// True if the program is to take some.
    pub(super) fn has_input(&self) -> bool {
        !self.pending.parts.is_empty()
    }

    /// Writes pending input as far as the program takes it; the lengths of the frames that are written
    /// whole.
    pub(super) fn feed(&mut self) -> Vec<usize> {
        let mut whole = Vec::new();
        while let Some(part) = self.pending.parts.front() {
            let bytes = match part {
                Part::Bytes(bytes) => bytes,
                Part::End => {
                    if !self.end_input() {
                        return whole;
                    }
                    self.pending.parts.pop_front();
                    continue;
                }
            };
            // A program that has closed its input reads no more: that is its right.
            let rest = bytes.get(self.pending.written..).unwrap_or_default();
            let written = match &mut self.input {
                Some(input) if !rest.is_empty() => input.write(rest),
                _ => Ok(rest.len()),
            };
            match written {
                Ok(written) => self.pending.written += written,
                Err(error) if would_block(&error) => return whole,
                Err(_) => self.input = None,
            }
            if self.pending.written >= bytes.len() {
                whole.push(bytes.len());
                self.pending.written = 0;
                self.pending.parts.pop_front();
            }
        }
        whole
    }

    /// A pipe is closed; a terminal is typed its key for the end, if it takes one now.
    fn end_input(&mut self) -> bool {
        let Some(terminal) = &self.terminal else {
            self.input = None;
            return true;
        };
        let modes = tcgetattr(terminal);
        let end =
            modes.map_or(END_OF_TRANSMISSION, |modes| modes.special_codes[SpecialCodeIndex::VEOF]);
        let typed = self.input.as_mut().map(|input| input.write(&[end]));
        !typed.is_some_and(|typed| typed.is_err_and(|error| would_block(&error)))
    }

    pub(super) fn resize(&self, size: Size) {
        if let Some(terminal) = &self.terminal {
            // The kernel tells the program. What a terminal cannot be stays as it was.
            let _ = tcsetwinsize(terminal, winsize(size));
        }
    }

    /// Reads what can be read now, `most` bytes at most; an output that has ended is forgotten. `which`
    /// counts them.
    pub(super) fn read(&mut self, which: usize, most: usize) -> Option<(Kind, Vec<u8>)> {
        let (file, kind) = self.outputs.get_mut(which)?;
        let mut bytes = vec![0; most];
        match file.read(&mut bytes) {
            Ok(read @ 1..) => {
                bytes.truncate(read);
                return Some((*kind, bytes));
            }
            Err(error) if would_block(&error) => {}
            // An error is how a terminal says that nobody has its other side any more.
            Ok(0) | Err(_) => drop(self.outputs.remove(which)),
        }
        None
    }

    /// True if there is something to read now, an end included.
    pub(super) fn is_readable(&self) -> bool {
        let outputs = self.outputs.iter();
        let mut fds: Vec<_> = outputs
            .map(|(file, _)| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN))
            .collect();
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }
}

/// A terminal of this size: the side that shows and types, and the program's.
fn pair(size: Size) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags)?;
    unlockpt(&terminal)?;
    tcsetwinsize(&terminal, winsize(size))?;
    let line = ioctl_tiocgptpeer(&terminal, flags)?;
    Ok((terminal, line))
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// An end that never blocks.
fn ready(end: OwnedFd) -> io::Result<File> {
    let flags = fcntl_getfl(end.as_fd())?;
    fcntl_setfl(end.as_fd(), flags | OFlags::NONBLOCK)?;
    Ok(File::from(end))
}
