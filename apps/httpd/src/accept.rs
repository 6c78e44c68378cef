//! Listening, and how many connections there may be.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::say::say;

/// Connections that the kernel keeps until they are taken, as far as net.core.somaxconn lets it.
/// Beyond them a client sends its SYN again after 1, 3 and 7 s: the 128 of the standard library are
/// gone within a moment where all places are taken, and a client waits for seconds though one is free.
const BACKLOG: i32 = 4096;

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
            let failed = || format!("listening on {address}");
            let listener = TcpListener::bind(address).with_context(failed)?;
            // It listens already, and keeps more from now on.
            rustix::net::listen(&listener, BACKLOG).with_context(failed)?;
            listeners.push(listener);
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

/// True if something waits to be taken: a connection of a listening socket, bytes of a client or its
/// end.
pub(crate) fn one_waits(socket: &impl AsFd) -> bool {
    let (mut look, now) = ([PollFd::new(socket, PollFlags::IN)], Timespec::default());
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

    /// Else their SYNs are dropped, and sent again after a second, and after three.
    #[test]
    fn more_clients_than_128_connect_while_nobody_takes_them() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let most: usize = most.trim().parse().unwrap();
        if most < 512 {
            return eprintln!("passed over: net.core.somaxconn is {most}");
        }
        let listeners = listen(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let limit = std::time::Duration::from_millis(900);
        let connect = |_| std::net::TcpStream::connect_timeout(&address, limit);
        let clients: Result<Vec<_>, _> = (0..400).map(connect).collect();
        assert_eq!(clients.unwrap().len(), 400);
    }
}
