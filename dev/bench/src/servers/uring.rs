//! The server by io_uring: as the plain one, but what would sleep is left to a ring, whose
//! descriptor is in the epoll beside the sockets.

use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::plain::{CHUNK, target, write_head};

const LISTENER: u64 = u64::MAX;
const RING: u64 = u64::MAX - 1;
/// Calls that can be in the ring at once; a client has one at a time.
const ENTRIES: u32 = 256;

/// Reason for which a client waits.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// A request.
    Request,
    /// The ring has its open.
    Open,
    /// Nothing: a part of its file is to be read.
    Opened,
    /// The ring has its read.
    Part,
    /// Its socket is to take what it is sent.
    Room,
}

#[derive(Debug)]
struct UringClient {
    stream: TcpStream,
    phase: Phase,
    path: CString,
    file: Option<File>,
    length: u64,
    /// End of the part of the file that `data` holds.
    offset: u64,
    /// Bytes to be sent; the part of the file among them begins at `start`.
    data: Vec<u8>,
    start: usize,
    sent: usize,
}

/// Serves the folder on a port that it prints, until it is killed. With `tries` each call is
/// made in a form that cannot sleep first, and the ring has only what would.
pub(crate) fn serve(folder: &Path, tries: bool) -> Result<()> {
    let mut ring = IoUring::new(ENTRIES).context("setting up an io_uring")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    // SAFETY: the ring stays open beyond the epoll's use.
    let of_ring = unsafe { std::os::fd::BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    epoll::add(&epoll, of_ring, EventData::new_u64(RING), EventFlags::IN)?;
    let (mut clients, mut events) = (Vec::new(), Vec::with_capacity(256));
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            // The ring's own work interrupts a wait.
            Ok(_) | Err(Errno::INTR) => (),
            Err(errno) => return Err(errno.into()),
        }
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => accept(&listener, &epoll, &mut clients)?,
                RING => (),
                at => advance(&mut ring, &mut clients, at as usize, folder, tries)?,
            }
        }
        // All that this turn has left to the ring by one call, as what its results lead to.
        loop {
            ring.submit()?;
            let ended: Vec<_> =
                ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
            for (at, result) in &ended {
                let at = *at as usize;
                if let Some(client) = &mut clients[at]
                    && client.take(*result).is_err()
                {
                    clients[at] = None;
                }
                advance(&mut ring, &mut clients, at, folder, tries)?;
            }
            if ended.is_empty() {
                break;
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    epoll: &OwnedFd,
    clients: &mut Vec<Option<UringClient>>,
) -> Result<()> {
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let mark = EventData::new_u64(clients.len() as u64);
        epoll::add(epoll, &stream, mark, EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
        clients.push(Some(UringClient {
            stream,
            phase: Phase::Request,
            path: CString::default(),
            file: None,
            length: 0,
            offset: 0,
            data: Vec::new(),
            start: 0,
            sent: 0,
        }));
    }
    Ok(())
}

/// Lets a client go on; what it waits for then goes to the ring, if it is not its socket.
fn advance(
    ring: &mut IoUring,
    clients: &mut [Option<UringClient>],
    at: usize,
    folder: &Path,
    tries: bool,
) -> Result<()> {
    let Some(client) = &mut clients[at] else { return Ok(()) };
    match client.go(folder, tries) {
        Ok(None) => (),
        Ok(Some(entry)) => {
            let entry = entry.user_data(at as u64);
            // SAFETY: path and data stay as they are until the call's result has been taken:
            // a client in these phases does nothing, and is not dropped.
            unsafe { ring.submission().push(&entry) }.context("a ring that is full")?;
        }
        Err(_) => clients[at] = None,
    }
    Ok(())
}

impl UringClient {
    /// Goes on as far as nothing would sleep; a call for the ring if that is why it stops.
    fn go(&mut self, folder: &Path, tries: bool) -> Result<Option<squeue::Entry>> {
        loop {
            match self.phase {
                // Its socket has said something meanwhile.
                Phase::Open | Phase::Part => return Ok(None),
                Phase::Request => {
                    let mut input = [0; 4096];
                    let count = match self.stream.read(&mut input) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                        read => read?,
                    };
                    let path = folder.join(target(&input[..count])?);
                    self.path = CString::new(path.into_os_string().into_encoded_bytes())?;
                    match if tries { self.try_open()? } else { None } {
                        Some(file) => self.opened(File::from(file))?,
                        None => {
                            self.phase = Phase::Open;
                            let at = types::Fd(libc::AT_FDCWD);
                            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                            let open = opcode::OpenAt::new(at, self.path.as_ptr());
                            return Ok(Some(open.flags(flags.bits() as i32).build()));
                        }
                    }
                }
                Phase::Opened => {
                    if let Some(read) = self.part(tries)? {
                        return Ok(Some(read));
                    }
                }
                Phase::Room => match self.stream.write(&self.data[self.sent..]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    wrote => {
                        self.sent += wrote?;
                        if self.sent < self.data.len() {
                            continue;
                        }
                        if self.offset == self.length {
                            self.phase = Phase::Request;
                            continue;
                        }
                        self.data.clear();
                        self.phase = Phase::Opened;
                    }
                },
            }
        }
    }

    fn try_open(&self) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let cached = ResolveFlags::CACHED;
        match openat2(rustix::fs::CWD, &*self.path, flags, Mode::empty(), cached) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn opened(&mut self, file: File) -> Result<()> {
        (self.length, self.offset) = (file.metadata()?.len(), 0);
        (self.file, self.phase) = (Some(file), Phase::Opened);
        self.data.clear();
        write_head(&mut self.data, self.length)
    }

    /// Reads the next part of the file behind what `data` holds, or says how the ring is to.
    fn part(&mut self, tries: bool) -> Result<Option<squeue::Entry>> {
        let part = usize::try_from(self.length - self.offset)?.min(CHUNK);
        (self.start, self.sent) = (self.data.len(), 0);
        self.data.resize(self.start + part, 0);
        let file = self.file.as_ref().context("a file")?;
        let into = &mut self.data[self.start..];
        if tries {
            let mut slices = [IoSliceMut::new(into)];
            match preadv2(file, &mut slices, self.offset, ReadWriteFlags::NOWAIT) {
                Ok(count) if count == part => {
                    self.offset += part as u64;
                    self.phase = Phase::Room;
                    return Ok(None);
                }
                Ok(_) | Err(Errno::AGAIN) => (),
                Err(errno) => return Err(errno.into()),
            }
        }
        let read = opcode::Read::new(types::Fd(file.as_raw_fd()), into.as_mut_ptr(), part as u32);
        self.phase = Phase::Part;
        Ok(Some(read.offset(self.offset).build()))
    }

    /// Takes what the ring has given.
    fn take(&mut self, result: i32) -> Result<()> {
        ensure!(result >= 0, "{:?}: {}", self.path, Errno::from_raw_os_error(-result));
        match self.phase {
            Phase::Open => {
                // SAFETY: opened just now, for this client alone.
                let file = unsafe { OwnedFd::from_raw_fd(result) };
                self.opened(File::from(file))
            }
            Phase::Part => {
                let part = self.data.len() - self.start;
                ensure!(result as usize == part, "{result} of {part} bytes were read");
                self.offset += part as u64;
                self.phase = Phase::Room;
                Ok(())
            }
            _ => bail!("the ring has a result that nobody waits for"),
        }
    }
}
