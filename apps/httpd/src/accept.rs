//! Listening, and how many connections there may be.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::say::say;

/// The sockets to listen on: those that systemd hands over, or new ones.
///
/// # Errors
/// An address is taken or not this machine's.
pub(crate) fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>> {
    let mut handed = listenfd::ListenFd::from_env();
    let mut listeners = Vec::new();
    for at in 0..handed.len() {
        let listener = handed.take_tcp_listener(at);
        listeners.extend(listener.context("taking a socket that systemd hands over")?);
    }
    if listeners.is_empty() {
        for address in addresses {
            let listener = TcpListener::bind(address);
            listeners.push(listener.with_context(|| format!("listening on {address}"))?);
        }
    }
    for listener in &listeners {
        listener.set_nonblocking(true).context("setting O_NONBLOCK for a socket")?;
    }
    Ok(listeners)
}

/// Connections that there may be if not said otherwise.
const CONNECTIONS: u32 = 10_000;
/// Descriptors that others of the process need.
const OTHERS: u64 = 64;

/// Files that a worker keeps open at most.
const KEPT: u64 = 1024;

/// Number of files that each worker may keep open: an eighth of all descriptors is for that.
pub(crate) fn most_kept(workers: usize) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let share = files / 8 / (workers as u64).max(1);
    usize::try_from(share.min(KEPT)).unwrap_or(usize::MAX)
}

/// Number of connections that there may be: as many as were asked for, or fewer if there cannot be
/// so many descriptors, of which each may have two. That is said to who has asked.
pub(crate) fn most_connections(asked: Option<u32>, workers: usize) -> usize {
    let most = usize::try_from(asked.unwrap_or(CONNECTIONS)).unwrap_or(usize::MAX);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = getrlimit(Resource::Nofile).current.or(current).unwrap_or(u64::MAX);
    let kept = most_kept(workers).saturating_mul(workers) as u64;
    let by_files =
        usize::try_from(files.saturating_sub(OTHERS + kept) / 2).unwrap_or(usize::MAX).max(1);
    if by_files < most && asked.is_some() {
        say(format_args!(
            "{by_files} connections at most, not {most}: the limit of open files (ulimit -n) is \
             {files}",
        ));
    }
    most.min(by_files)
}

/// Outcome of asking for a connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    Connection(OwnedFd, Option<IpAddr>),
    /// Nobody waits.
    None,
    /// The client had given up.
    Lost,
    /// No descriptor or no memory for it.
    Exhausted,
}

/// True if a connection waits there, for which another one would be closed.
pub(crate) fn one_waits(listener: &TcpListener) -> bool {
    let (mut look, now) = ([PollFd::new(listener, PollFlags::IN)], Timespec::default());
    poll(&mut look, Some(&now)).is_ok_and(|count| count > 0)
}

/// Takes a connection that waits.
pub(crate) fn accept(listener: &TcpListener) -> Accepted {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match acceptfrom_with(listener, flags) {
        Ok((socket, peer)) => Accepted::Connection(socket, peer.and_then(address)),
        Err(Errno::AGAIN) => Accepted::None,
        Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => Accepted::Exhausted,
        Err(_) => Accepted::Lost,
    }
}

fn address(peer: SocketAddrAny) -> Option<IpAddr> {
    SocketAddr::try_from(peer).ok().map(|address| address.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_taken_is_named() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let error = listen(&[address]).unwrap_err();
        assert!(format!("{error:#}").contains(&format!("listening on {address}")));
    }
}
