//! The spawn server of a process: started on first use, asked, and started again when it
//! has died or the process is another one than it was.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kumiki_sys::fork::PerProcess;
use kumiki_sys::futex::{self, Scope};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
    SocketType, sendmsg, shutdown, socketpair,
};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::identity::{Identity, may_look_into};
use crate::request::Request;
use crate::wire::{ASKED, BYTES, DATA, DONE, Header, IDLE, TAKEN};

/// The program, built by `build.rs`.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/server"));
/// Between two looks whether a server that does not answer is alive.
const LOOK: Duration = Duration::from_millis(20);
/// Servers that die before they have begun, in a row.
const TRIES: usize = 3;

/// This process's. A child of fork(2) has none: what its parent's makes are children of
/// that.
static SERVER: PerProcess<Mutex<Option<Server>>> = PerProcess::new();

/// A running server.
struct Server {
    process: process::Child,
    socket: OwnedFd,
    memory: NonNull<Header>,
    identity: Identity,
}

// SAFETY: the memory is shared with another process, not bound to a thread, and used by
// who holds the lock.
unsafe impl Send for Server {}

/// Starts the process's spawn server, if it has none yet: for programs that want it
/// before they are large. Else it is started by the first [`Command`](crate::Command). Who
/// gives up rights or is confined later has another one then: children of the first would
/// have more than their parent.
///
/// # Errors
/// No process, memory or descriptor is to be had.
pub fn start_server() -> io::Result<()> {
    with(|_| Ok(()))
}

fn with<T>(f: impl FnOnce(&mut Option<Server>) -> io::Result<T>) -> io::Result<T> {
    let server = SERVER.get().map_err(io::Error::other)?;
    let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
    let identity = Identity::current();
    if server.as_mut().is_none_or(|server| !server.is_for(&identity) || server.has_died()) {
        // The former one ends first.
        *server = None;
        *server = Some(Server::start(identity)?);
    }
    f(&mut server)
}

/// Has the server make a child with these standard descriptors. The child is the calling
/// process's, to be waited for.
///
/// # Errors
/// As posix_spawn(3): what a call in the child was refused with.
pub(crate) fn spawn(request: &Request, standard: &[Option<BorrowedFd<'_>>; 3]) -> io::Result<Pid> {
    let strings = request.strings()?;
    let here = rustix::fs::open(
        ".",
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    for _ in 0..TRIES {
        let answer = with(|server| {
            let asked = server.as_mut().expect("it was just started");
            let answer = asked.ask(request, &strings, here.as_fd(), standard);
            if answer.is_err() {
                *server = None;
            }
            Ok(answer)
        })?;
        match answer {
            Ok((pid, 0)) => return pid.ok_or_else(gone),
            Ok((pid, errno)) => {
                // One that could not execute its program has ended.
                if let Some(pid) = pid {
                    while let Err(Errno::INTR) = waitpid(Some(pid), WaitOptions::empty()) {}
                }
                return Err(io::Error::from_raw_os_error(errno));
            }
            // Nothing has begun: the next server may try.
            Err(Died) => {}
        }
    }
    Err(gone())
}

fn gone() -> io::Error {
    io::Error::other("the spawn server was killed each time it was asked; see who does that")
}

/// The server has died, and there is no child.
struct Died;

impl Server {
    fn start(identity: Identity) -> io::Result<Server> {
        let program = memfd_create("kumiki-spawn", MemfdFlags::CLOEXEC)?;
        let mut program = File::from(program);
        program.write_all(PROGRAM)?;
        let memory = memfd_create("kumiki-spawn-requests", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&memory, BYTES as u64)?;
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // SAFETY: a new mapping of a file that is that long.
        let header = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, &memory, 0)
        }?;
        let path = format!("/proc/self/fd/{}", program.as_raw_fd());
        let server = process::Command::new(path)
            .env_clear()
            .stdin(theirs)
            .stdout(memory)
            .stderr(process::Stdio::null())
            .spawn();
        let memory = NonNull::new(header.cast()).expect("a mapping is not at 0");
        match server {
            Ok(process) => Ok(Server { process, socket: ours, memory, identity }),
            Err(error) => {
                // SAFETY: mapped above, and nobody has it.
                let _ = unsafe { munmap(header, BYTES) };
                Err(error)
            }
        }
    }

    /// Whether its children are those of a caller like that. To be asked in that thread.
    fn is_for(&self, caller: &Identity) -> bool {
        self.identity.fits(caller) && may_look_into(self.process.id())
    }

    fn has_died(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// The child, if there is one, and why it does not run.
    fn ask(
        &mut self,
        request: &Request,
        strings: &[u8],
        here: BorrowedFd<'_>,
        standard: &[Option<BorrowedFd<'_>>; 3],
    ) -> Result<(Option<Pid>, i32), Died> {
        // SAFETY: the server does nothing until it is told, and this thread has the lock.
        let header = unsafe { self.memory.as_mut() };
        header.pid.store(0, Relaxed);
        header.errno.store(0, Relaxed);
        let bits = standard.iter().enumerate().map(|(n, fd)| u32::from(fd.is_some()) << n);
        header.standard = bits.sum();
        // SAFETY: this one only tells; 0 if the group's leader is outside of the pid
        // namespace, which rustix takes for impossible.
        header.group = request.group.unwrap_or_else(|| unsafe { libc::getpgrp() });
        header.group_is_asked = request.group.is_some().into();
        let count = |strings: &[CString]| strings.len() as u32;
        header.programs = count(&request.programs);
        header.args = count(&request.args);
        header.env = count(&request.env);
        header.has_folder = request.folder.is_some().into();
        header.bytes = strings.len() as u32;
        let words = request.cpus.words();
        header.cpu_words = words.len() as u32;
        header.cpus[..words.len()].copy_from_slice(words);
        let data = self.memory.cast::<u8>().as_ptr().wrapping_add(DATA);
        // SAFETY: `Request::strings` has checked that they fit.
        unsafe { data.copy_from_nonoverlapping(strings.as_ptr(), strings.len()) };
        // SAFETY: from here on the server writes too, to atomics only.
        let header = unsafe { self.memory.as_ref() };
        // Release: partner is the server's exchange.
        header.state.store(ASKED, Release);

        let fds: Vec<_> = [Some(here)].iter().chain(standard).copied().flatten().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let one = [IoSlice::new(&[0])];
        loop {
            match sendmsg(&self.socket, &one, &mut control, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                Err(_) => return Err(Died),
                Ok(_) => break,
            }
        }
        let mut dead = false;
        loop {
            // Acquire: what the server wrote before.
            match header.state.load(Acquire) {
                DONE => break,
                // It died: what it has left does not change any more.
                TAKEN if dead && header.pid.load(Acquire) > 0 => break,
                ASKED | TAKEN if dead => return Err(Died),
                state => {
                    // Woken, changed, or time to look.
                    let _ = futex::wait(
                        &header.state,
                        state,
                        Scope::Shared,
                        Some(futex::Deadline::after(LOOK)),
                    );
                }
            }
            dead = header.state.load(Acquire) != DONE && self.has_died();
        }
        header.state.store(IDLE, Relaxed);
        Ok((Pid::from_raw(header.pid.load(Relaxed)), header.errno.load(Relaxed)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when nobody can ask it any more, also if it may not be killed by who the
        // caller is now; a copy of the socket may be in a child of fork(2).
        let _ = shutdown(&self.socket, Shutdown::Both);
        let _ = self.process.kill();
        let _ = self.process.wait();
        // SAFETY: mapped by `start`, and nobody uses it now.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), BYTES) };
    }
}
