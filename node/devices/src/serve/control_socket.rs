//! Sockets by which commands reach a process that looks after a node.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::{Error, Result};

fn address(place: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(place).map_err(|error| Error::os("a server's socket", error))
}

fn new_socket() -> Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::os("a socket", error))
}

/// Socket for requests; `None` if somebody listens there already.
pub fn listening(place: &Path) -> Result<Option<OwnedFd>> {
    if connected(place)?.is_some() {
        return Ok(None);
    }
    // Of one that was killed.
    let _ = fs::remove_file(place);
    let socket = new_socket()?;
    let failed = |error| Error::os(format!("listening at {}", place.display()), error);
    bind(&socket, &address(place)?).map_err(failed)?;
    listen(&socket, 8).map_err(failed)?;
    Ok(Some(socket))
}

/// A connection to who listens there; `None` if nobody does.
pub fn connected(place: &Path) -> Result<Option<OwnedFd>> {
    let socket = new_socket()?;
    Ok(connect(&socket, &address(place)?).ok().map(|()| socket))
}
