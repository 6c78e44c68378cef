//! A program's ends here: three pipes, or one terminal.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use kumiki_node_wire::frame::Size;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{SpecialCodeIndex, Winsize, tcgetattr, tcsetwinsize};

use crate::{Error, Result};

pub(super) struct Streams {
    pub(super) input: Option<File>,
    pub(super) out: Option<File>,
    pub(super) err: Option<File>,
    /// The side of a terminal that shows and types.
    pub(super) terminal: Option<File>,
    /// Input that the program has not taken yet.
    pub(super) pending: Vec<u8>,
}

impl Streams {
    /// Starts the program with these, in a process group of its own, so that a
    /// signal reaches all that it has started.
    pub(super) fn spawn(command: &mut Command, size: Option<Size>) -> Result<(Child, Self)> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| Error::os(format!("starting {name}"), error);
        let Some(size) = size else {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.process_group(0).spawn().map_err(failed)?;
            let file = |pipe: Option<OwnedFd>| pipe.map(ready).transpose();
            let streams = Streams {
                input: file(child.stdin.take().map(OwnedFd::from))?,
                out: file(child.stdout.take().map(OwnedFd::from))?,
                err: file(child.stderr.take().map(OwnedFd::from))?,
                terminal: None,
                pending: Vec::new(),
            };
            return Ok((child, streams));
        };
        let (terminal, line) = pair(size)
            .map_err(|error| Error::os("opening a terminal (is /dev/pts there?)", error))?;
        let line = || line.try_clone().map_err(failed);
        command.stdin(line()?).stdout(line()?).stderr(line()?);
        // SAFETY: between fork and exec this makes two system calls and touches
        // neither memory that another thread may hold nor a lock.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
            })
        };
        let child = command.spawn().map_err(failed)?;
        // The last of its ends here, or its end would never be seen.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let terminal = ready(terminal)?;
        let copy = || terminal.try_clone().map_err(failed);
        let (input, out) = (Some(copy()?), Some(copy()?));
        let terminal = Some(terminal);
        Ok((child, Streams { input, out, err: None, terminal, pending: Vec::new() }))
    }

    /// Writes pending input as far as the program takes it.
    pub(super) fn feed(&mut self) {
        let Some(input) = &mut self.input else { return self.pending.clear() };
        while !self.pending.is_empty() {
            match input.write(&self.pending) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if would_block(&error) => return,
                // It reads no more: that is its right.
                Err(_) => {
                    self.input = None;
                    return self.pending.clear();
                }
            }
        }
    }

    /// No more input: a pipe is closed; a terminal is typed its key for that.
    pub(super) fn end_input(&mut self) {
        match &self.terminal {
            Some(terminal) => {
                let end =
                    tcgetattr(terminal).map(|modes| modes.special_codes[SpecialCodeIndex::VEOF]);
                self.pending = vec![end.unwrap_or(4)];
            }
            None => self.input = None,
        }
    }

    pub(super) fn resize(&self, size: Size) {
        if let Some(terminal) = &self.terminal {
            // The kernel tells the program. What a terminal cannot be stays as it was.
            let _ = tcsetwinsize(terminal, winsize(size));
        }
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

pub(super) fn would_block(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// An end that never blocks.
fn ready(end: OwnedFd) -> Result<File> {
    let blocking = |error| Error::os("making a stream non-blocking", error);
    let flags = fcntl_getfl(end.as_fd()).map_err(blocking)?;
    fcntl_setfl(end.as_fd(), flags | OFlags::NONBLOCK).map_err(blocking)?;
    Ok(File::from(end))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn read_to_end(file: &mut File) -> String {
        let (mut seen, mut bytes) = (Vec::new(), [0; 256]);
        loop {
            match file.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => seen.extend_from_slice(&bytes[..read]),
                Err(error) if would_block(&error) => std::thread::yield_now(),
                // Nobody has the line any more.
                Err(_) => break,
            }
        }
        String::from_utf8(seen).unwrap()
    }

    #[test]
    fn a_program_gets_a_terminal_of_its_own() {
        let mut command = Command::new("sh");
        // The shell is told of another size, which is the first thing that happens.
        command.args(["-c", "read a; stty size; tty > /dev/tty; read b || echo end"]);
        let size = Size { rows: 20, columns: 70 };
        let (mut child, mut streams) = Streams::spawn(&mut command, Some(size)).unwrap();
        streams.resize(Size { rows: 30, columns: 90 });
        streams.pending = b"go\n".to_vec();
        streams.feed();
        streams.end_input();
        streams.feed();
        let seen = read_to_end(streams.out.as_mut().unwrap());
        assert!(child.wait().unwrap().success(), "{seen}");
        assert!(seen.contains("30 90") && seen.contains("/dev/pts/"), "{seen}");
        assert!(seen.ends_with("end\r\n"), "{seen:?}");
    }
}
