//! Standard input and output as the ends of a stream of frames.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::error::{Error, Result};

type InputStream = Box<dyn AsyncRead + Unpin>;
type To = Box<dyn AsyncWrite + Unpin>;

/// Both, which are pipes or sockets.
pub fn ends() -> Result<(InputStream, To)> {
    let failed = |what: &str| {
        let what = format!("passing frames by {what}");
        move |source| Error::Io { what, source }
    };
    let from = std::io::stdin().as_fd().try_clone_to_owned().and_then(input);
    let to = std::io::stdout().as_fd().try_clone_to_owned().and_then(output);
    Ok((from.map_err(failed("standard input"))?, to.map_err(failed("standard output"))?))
}

/// Reads a pipe or a socket.
fn input(fd: OwnedFd) -> io::Result<InputStream> {
    Ok(match socket(&fd)? {
        true => Box::new(stream(fd)?),
        false => Box::new(pipe::Receiver::from_owned_fd(fd)?),
    })
}

/// Writes to a pipe or a socket.
fn output(fd: OwnedFd) -> io::Result<To> {
    Ok(match socket(&fd)? {
        true => Box::new(stream(fd)?),
        false => Box::new(pipe::Sender::from_owned_fd(fd)?),
    })
}

fn socket(fd: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode).is_socket())
}

fn stream(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
