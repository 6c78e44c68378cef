//! Listening, and how many connections there may be.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};
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

/// Connections of all workers.
#[derive(Debug)]
pub(crate) struct Limit {
    count: AtomicUsize,
    most: usize,
}

impl Limit {
    /// Makes room for `most`, or for fewer if there cannot be so many descriptors: each connection
    /// may have two.
    pub(crate) fn new(most: usize) -> Self {
        // What others of the process need.
        const OTHERS: u64 = 64;
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        let files = getrlimit(Resource::Nofile).current.or(current).unwrap_or(u64::MAX);
        let by_files = usize::try_from(files.saturating_sub(OTHERS) / 2).unwrap_or(usize::MAX);
        if by_files < most {
            say(format_args!(
                "{} connections at most, not {most}: the limit of open files (ulimit -n) is \
                 {files}",
                by_files.max(1)
            ));
        }
        Limit { count: AtomicUsize::new(0), most: most.min(by_files).max(1) }
    }

    /// Counts one more, if there may be.
    pub(crate) fn take(&self) -> bool {
        let more = |count| (count < self.most).then_some(count + 1);
        self.count.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    pub(crate) fn give_back(&self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// Outcome of asking for a connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    Connection(OwnedFd, Option<IpAddr>),
    /// There is none.
    None,
    /// It was given up before.
    Lost,
    /// No descriptor or no memory for it.
    Exhausted,
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
    fn a_limit_counts() {
        let limit = Limit { count: AtomicUsize::new(0), most: 2 };
        assert!(limit.take() && limit.take() && !limit.take());
        limit.give_back();
        assert!(limit.take() && !limit.take());
    }

    #[test]
    fn an_address_that_is_taken_is_named() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let error = listen(&[address]).unwrap_err();
        assert!(format!("{error:#}").contains(&format!("listening on {address}")));
    }
}
