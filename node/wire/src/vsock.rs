//! Streams by vsock: standard input goes to the other side, and what comes back to
//! standard output, as nc(1) does it for TCP.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::thread;

use rustix::net::{AddressFamily, Shutdown, SocketType, listen, shutdown, socket};

use crate::{Error, Result};

/// Any of one's own.
const ANY_CID: u32 = u32::MAX;
const CHUNK_BYTES: usize = 64 << 10;

/// `struct sockaddr_vm`.
#[repr(C)]
struct Address {
    family: u16,
    reserved: u16,
    port: u32,
    cid: u32,
    rest: [u8; 4],
}

const _: () = assert!(size_of::<Address>() == 16);

type Call = unsafe extern "C" fn(i32, *const libc::sockaddr, u32) -> i32;

fn on(call: Call, socket: &OwnedFd, cid: u32, port: u32, doing: &str) -> Result<()> {
    let family = AddressFamily::VSOCK.as_raw();
    let address = Address { family, reserved: 0, port, cid, rest: [0; 4] };
    let bytes = size_of::<Address>() as u32;
    // SAFETY: bind(2) and connect(2) read so many bytes of an address, which this is.
    let answer = unsafe { call(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if answer == 0 {
        return Ok(());
    }
    Err(Error::os(format!("{doing} vsock {cid}:{port}"), io::Error::last_os_error()))
}

fn new_socket() -> Result<OwnedFd> {
    socket(AddressFamily::VSOCK, SocketType::STREAM, None)
        .map_err(|error| Error::os("a vsock (its driver may not be loaded)", error))
}

/// A stream to a port of a machine or node.
pub fn stream(cid: u32, port: u32) -> Result<File> {
    let socket = new_socket()?;
    on(libc::connect, &socket, cid, port, "connecting to")?;
    Ok(File::from(socket))
}

/// A port of this machine or node, at which streams arrive.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes the port.
    pub fn new(port: u32) -> Result<Self> {
        let socket = new_socket()?;
        on(libc::bind, &socket, ANY_CID, port, "taking")?;
        listen(&socket, 8).map_err(|error| Error::os("listening on a vsock", error))?;
        Ok(Listener(socket))
    }

    /// Waits for the next stream.
    pub fn accept(&self) -> Result<File> {
        let connection =
            rustix::net::accept(&self.0).map_err(|error| Error::os("accepting a vsock", error))?;
        Ok(File::from(connection))
    }
}

/// Connects to a port of a machine or node, and relays.
pub fn connect(cid: u32, port: u32) -> Result<()> {
    relay(stream(cid, port)?)
}

/// Waits for one connection to a port here, and relays.
pub fn serve(port: u32) -> Result<()> {
    relay(Listener::new(port)?.accept()?)
}

/// Waits for one connection to a port here, and sends back what it receives.
pub fn echo(port: u32) -> Result<()> {
    let connection = Listener::new(port)?.accept()?;
    let (mut from, mut to) = (file(&connection)?, file(&connection)?);
    io::copy(&mut from, &mut to).map_err(|error| Error::os("echoing by vsock", error))?;
    Ok(())
}

fn file(socket: &File) -> Result<File> {
    socket.try_clone().map_err(|error| Error::os("copying a descriptor", error))
}

fn relay(socket: File) -> Result<()> {
    let sender = file(&socket)?;
    let mut receiver = file(&socket)?;
    // Detached: an input that nobody ends does not keep this here.
    thread::spawn(move || {
        // SAFETY: standard input is open, and this process's; it is not closed below.
        let input = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(0) });
        let sent = copy(&input, &sender);
        let _ = shutdown(sender.as_fd(), Shutdown::Write);
        sent
    });
    let mut out = io::stdout().lock();
    let mut bytes = vec![0; CHUNK_BYTES];
    loop {
        let length =
            receiver.read(&mut bytes).map_err(|error| Error::os("receiving by vsock", error))?;
        if length == 0 {
            return Ok(());
        }
        out.write_all(&bytes[..length])
            .and_then(|()| out.flush())
            .map_err(|error| Error::os("standard output", error))?;
    }
}

fn copy(mut from: &File, mut to: &File) -> io::Result<u64> {
    io::copy(&mut from, &mut to)
}
