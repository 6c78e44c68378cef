//! Sockets on which clients come.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// Clients that wait to be taken.
const BACKLOG: i32 = 1024;

/// A socket for each worker at one address; the kernel shares clients out among them.
///
/// The first binds and listens alone, so that another process that does the same gets the error that
/// the address is in use; only then may those of this process's other workers have it, too.
pub(crate) fn tcp(address: SocketAddr, workers: usize) -> Result<(SocketAddr, Vec<OwnedFd>)> {
    let first = bound(address, false).with_context(|| listening(address))?;
    net::listen(&first, BACKLOG).with_context(|| listening(address))?;
    let address = SocketAddr::try_from(net::getsockname(&first)?)?;
    let mut sockets = vec![first];
    if workers > 1 {
        sockopt::set_socket_reuseport(&sockets[0], true)?;
    }
    for _ in 1..workers {
        let socket = bound(address, true).with_context(|| listening(address))?;
        net::listen(&socket, BACKLOG).with_context(|| listening(address))?;
        sockets.push(socket);
    }
    Ok((address, sockets))
}

fn listening(address: SocketAddr) -> String {
    format!("listening on {address} (another port: --port, another address: --bind)")
}

fn bound(address: SocketAddr, is_shared: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if is_shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// A Unix socket, which all workers have; who may connect is by the file's mode.
pub(crate) fn unix(path: &Path, mode: u32) -> Result<OwnedFd> {
    let what = || format!("listening on --unix {}", path.display());
    let address = SocketAddrUnix::new(path).with_context(what)?;
    let is_socket = |found: fs::Metadata| found.file_type().is_socket();
    if fs::symlink_metadata(path).is_ok_and(is_socket) {
        if UnixStream::connect(path).is_ok() {
            bail!("{}: address already in use by a server that lives", what());
        }
        // One that has ended has left it.
        fs::remove_file(path).with_context(what)?;
    }
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    net::bind(&socket, &address).with_context(what)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(what)?;
    net::listen(&socket, BACKLOG).with_context(what)?;
    Ok(socket)
}

/// True if a client is on this machine.
pub(crate) fn is_near(peer: Option<IpAddr>) -> bool {
    peer.is_none_or(|peer| peer.to_canonical().is_loopback())
}
