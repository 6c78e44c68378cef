//! Children that are ready before they are needed.
//!
//! ```text
//!  pool                                     zygote, a child like any other
//!   spawn ─────────────────────────────────▶ main: whatever takes long
//!                                            ready(): waits for a message
//!   start(command): arguments, variables,
//!    folder, descriptors 0 to 2 ───────────▶ ready() hands the arguments back
//!   spawn the next one
//! ```

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use kumiki_sys::descriptors;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::child::Child;
use crate::command::Command;
use crate::request::send;
use crate::servers::SpawnServer;

/// Variable in which a zygote finds the number of its socket.
const VARIABLE: &str = "KUMIKI_ZYGOTE";
/// The socket's number there.
const SOCKET: i32 = 3;

/// A bounded pool of children of a program that cooperates: each has done what the program
/// does before it calls [`ready`], and waits. One that is started is replaced.
///
/// ```no_run
/// use kumiki_spawn::{Command, Stdio, Zygotes};
///
/// let mut workers = Zygotes::new(Command::new("/usr/bin/worker"), 4)?;
/// let mut work = Command::new("/usr/bin/worker");
/// let child = workers.start(work.arg("job-17").stdout(Stdio::piped()))?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// They are children of the thread that has made the pool, as it was then. If it is somebody
/// else now, or confined, they are ended, and new ones are made.
#[derive(Debug)]
pub struct Zygotes {
    command: Command,
    ready: VecDeque<(Child, OwnedFd)>,
    most: usize,
    server: SpawnServer,
}

impl Zygotes {
    /// Makes `most` children of `command`.
    ///
    /// # Errors
    /// As [`Command::spawn`]; `InvalidInput` if it gives descriptor 3, which a zygote needs.
    pub fn new(mut command: Command, most: usize) -> io::Result<Zygotes> {
        command.env(VARIABLE, SOCKET.to_string());
        if command.gives(SOCKET) {
            let why = "a zygote has its socket as descriptor 3, which the command gives to it";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (ready, server) = (VecDeque::with_capacity(most), SpawnServer::new());
        let mut pool = Zygotes { command, ready, most, server };
        pool.refill()?;
        Ok(pool)
    }

    /// Number of zygotes that wait.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Starts one: it gets the command's arguments, environment, working folder and standard
    /// descriptors, and is replaced by another one that will be ready.
    ///
    /// # Errors
    /// `InvalidInput` for a command of another program, or for an attribute that a process
    /// gets when it is made: those stand in the pool's own command. Where all that waited have
    /// ended and those that were made in their place end, too, how the last one has. Else as
    /// [`Command::spawn`].
    pub fn start(&mut self, command: &mut Command) -> io::Result<Child> {
        if let Some(why) = command.differs_from_zygote(&self.command) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if !self.server.still_fits() {
            self.end_all();
        }
        let mut dead = 0;
        loop {
            if self.ready.is_empty() {
                self.refill()?;
            }
            let Some((mut child, socket)) = self.ready.pop_front() else {
                let why = "a pool of no children: make one of at least one";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            };
            // One that has ended is no use; what it has said about that is not ours. Where SIGCHLD
            // is ignored, or somebody waits for any child, the kernel tells only that it is gone.
            let ended = match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(status.to_string()),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    Some("nobody knows how".to_owned())
                }
                Err(error) => return Err(error),
            };
            if let Some(how) = ended {
                dead += 1;
                // More than all that waited, and as many that were just made.
                if dead > 2 * self.most {
                    return Err(self.all_end(dead, &child, &how));
                }
                continue;
            }
            let pipes = command.hand_over(|content, fds| {
                let mut file = File::from(memfd_create("kumiki-zygote", MemfdFlags::CLOEXEC)?);
                file.write_all(content)?;
                file.rewind()?;
                let all: Vec<_> = [file.as_fd()].iter().chain(fds).copied().collect();
                Ok(send(&socket, 0, &all)?)
            });
            let pipes = match pipes {
                Ok(pipes) => pipes,
                // It has ended since; the next look tells how.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                    ) =>
                {
                    drop(socket);
                    let _ = child.kill();
                    dead += 1;
                    if dead > 2 * self.most {
                        return Err(self.all_end(dead, &child, "its socket is closed"));
                    }
                    let _ = child.wait();
                    continue;
                }
                Err(error) => {
                    // It has heard nothing.
                    self.ready.push_front((child, socket));
                    return Err(error);
                }
            };
            [child.stdin, child.stdout, child.stderr] = pipes;
            // It is off already. If there cannot be another one now the next start tells.
            let _ = self.refill();
            return Ok(child);
        }
    }

    fn all_end(&self, dead: usize, last: &Child, how: &str) -> io::Error {
        let program = self.command.shown();
        let text = format!(
            "{dead} children of the pool of {program} have ended before they were started, the last \
             one ({}): {how}; a program of a pool calls ready() and waits there",
            last.id()
        );
        io::Error::other(text)
    }

    /// Makes as many as are missing.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn refill(&mut self) -> io::Result<()> {
        while self.ready.len() < self.most {
            let flags = SocketFlags::CLOEXEC;
            let (ours, theirs) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            let child = self.command.fd(theirs, SOCKET).spawn_by(&mut self.server);
            self.command.take_back(SOCKET);
            self.ready.push_back((child?, ours));
        }
        Ok(())
    }

    fn end_all(&mut self) {
        for (mut child, socket) in self.ready.drain(..) {
            drop(socket);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Zygotes {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Arguments, variables and folder that a zygote was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its arguments, its own name first.
    pub args: Vec<OsString>,
    /// Its environment, each as `KEY=value`. The process's own is still that of the pool.
    pub env: Vec<OsString>,
}

/// Waits until it is started, and puts its working folder and standard descriptors in place: to be
/// called by a program that cooperates, before it has other threads, when all is done that does not
/// depend on its arguments. `None` if it was not made by [`Zygotes`], but started like any program.
/// Ends the process if the pool is gone.
///
/// # Errors
/// The message is no such one; the folder is not to be entered.
pub fn ready() -> io::Result<Option<Started>> {
    let number = std::env::var(VARIABLE).ok().and_then(|number| number.parse().ok());
    let Some(number) = number else { return Ok(None) };
    // SAFETY: the pool has given it, for this.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let mut byte = [0];
    let (count, fds) = descriptors::receive(&socket, &mut byte)?;
    if count == 0 {
        std::process::exit(0);
    }
    let mut fds = fds.into_iter();
    let wrong = || io::Error::other("the message is not one of a pool of zygotes");
    let mut content = Vec::new();
    File::from(fds.next().ok_or_else(wrong)?).read_to_end(&mut content)?;
    let (head, strings) = content.split_first_chunk::<5>().ok_or_else(wrong)?;
    rustix::process::fchdir(fds.next().ok_or_else(wrong)?)?;
    for place in 0..3 {
        if head[0] & 1 << place == 0 {
            // SAFETY: the program has begun to run, and uses them no more than it says here.
            unsafe { libc::close(place) };
        } else {
            let fd = fds.next().ok_or_else(wrong)?;
            match place {
                0 => rustix::stdio::dup2_stdin(&fd)?,
                1 => rustix::stdio::dup2_stdout(&fd)?,
                _ => rustix::stdio::dup2_stderr(&fd)?,
            }
        }
    }
    let count = u32::from_ne_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut strings = strings.split(|byte| *byte == 0).map(<[u8]>::to_vec).map(OsString::from_vec);
    let folder = strings.next().ok_or_else(wrong)?;
    if !folder.is_empty() {
        rustix::process::chdir(Path::new(&folder))?;
    }
    let args = strings.by_ref().take(count).collect();
    let mut env: Vec<OsString> = strings.collect();
    // What follows the last zero.
    env.pop();
    env.retain(|variable| !variable.as_bytes().starts_with(VARIABLE.as_bytes()));
    Ok(Some(Started { args, env }))
}
