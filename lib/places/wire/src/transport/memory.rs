//! Memory in common of a client and a place of one kernel: asked for and given at the place's socket, with its
//! descriptor. The place makes it and seals its size, so that neither can take it away from the other.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use kumiki_sys::descriptors;
use kumiki_sys::shm::Window;
use rustix::net::sockopt::socket_peercred;

use crate::error::Result;
use crate::transport::passed::{HEAD, frame, head_of, message};
use crate::transport::sockets;
use crate::wire;
use crate::wire::lane::{GIVEN, LANE_BYTES, LANES, Word};

/// Time that a place has to give memory: one that is stopped is called by messages.
const GIVES: Duration = Duration::from_secs(2);
/// True if a place has a socket here; whether somebody answers there is another question.
pub fn is_there(place: &str) -> bool {
    let folder = sockets::folder().ok().filter(|_| sockets::is_name(place));
    folder.is_some_and(|folder| sockets::paths(&folder, place).0.exists())
}

/// Asks a place for memory: none if nobody answers at its socket; none within if it gives none.
pub fn ask(place: &str) -> Result<Option<Option<(UnixStream, Window)>>> {
    if !sockets::is_name(place) {
        return Ok(None);
    }
    let (path, _) = sockets::paths(&sockets::folder()?, place);
    let Ok(stream) = UnixStream::connect(path) else { return Ok(None) };
    let own = rustix::process::getuid();
    let is_trusted = |peer: rustix::net::UCred| peer.uid == own || peer.uid.is_root();
    if !socket_peercred(&stream).is_ok_and(is_trusted) {
        return Ok(None);
    }
    // What a place cannot do it says, or it is stopped, or of another version.
    Ok(Some(asked(&stream).ok().flatten().map(|window| (stream, window))))
}

fn asked(mut stream: &UnixStream) -> io::Result<Option<Window>> {
    stream.set_read_timeout(Some(GIVES))?;
    stream.set_write_timeout(Some(GIVES))?;
    // The second word is answered by every version that has lanes, after the first.
    for word in [Word::Memory { at: 0 }, Word::Open { at: u64::MAX, first: 0 }] {
        let word = wire::message(&word).map_err(io::Error::other)?;
        stream.write_all(&frame(LANES, &word))?;
    }
    let (head, fd) = head(stream)?;
    let (number, length) = head_of(head)?;
    if number != LANES {
        return Ok(None);
    }
    let message = message(length, stream)?;
    let bytes = GIVEN * LANE_BYTES;
    let gives = matches!(wire::parse(&message), Ok(Word::Memory { at }) if at == bytes as u64);
    let Some(fd) = fd.filter(|_| gives) else { return Ok(None) };
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Window::map(fd.as_fd(), 0, bytes).map(Some).map_err(io::Error::other)
}

/// Reads a frame's first bytes, and the descriptor that comes with them.
fn head(stream: &UnixStream) -> io::Result<([u8; HEAD], Option<OwnedFd>)> {
    let (mut head, mut read, mut fd) = ([0; HEAD], 0, None);
    while read < HEAD {
        let (count, fds) = descriptors::receive(stream, &mut head[read..])?;
        fd = fds.into_iter().last().or(fd);
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read += count;
    }
    Ok((head, fd))
}
