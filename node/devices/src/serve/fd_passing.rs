//! Messages with descriptors, from the process that may open things to the one that
//! serves a node's memory and may open nothing.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use kumiki_sys::descriptors;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::tap::Link;
use crate::spec::QUEUES;
use crate::{Error, ErrorKind, Refusal, Result, Subject, json};

/// A message with all of its words.
const MESSAGE_BYTES: usize = 16 << 10;
/// A card has two for each of its pairs of queues.
const FDS: usize = 2 * QUEUES as usize;

/// Order to the serving process; descriptors come with it, in the order named.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// The node: address and bytes of its pieces of memory. The module's descriptor, and that of
    /// osnode-eventfd if this host has that.
    Node { name: String, pieces: Vec<(u64, u64)> },
    /// One more device. A new one, or one whose server has died.
    Serve { slot: usize, name: String, device: Passed, resume: bool },
    /// One less.
    Withdraw { slot: usize },
    /// The node's memory as it is now, as in `Node`.
    Memory { pieces: Vec<(u64, u64)> },
}

/// A device by what was opened for it.
#[derive(Debug, Serialize, Deserialize)]
pub enum Passed {
    /// Queues of a TAP, then as many vhost-net devices if this host has that.
    Net { link: Link, in_kernel: bool },
    /// A file or block device; with `direct` a second time, past the page cache.
    Disk { bytes: u64, read_only: bool, serial: String, direct: bool },
    /// A vhost-vsock device.
    Vsock { cid: u32 },
    /// A connection to virtiofsd.
    Share { tag: String },
    /// Nothing but this process.
    Entropy,
    /// The master's side of a terminal.
    Console,
}

/// Outcome of an order.
pub type Answer = std::result::Result<(), Refusal>;

/// Two ends; each message arrives whole, or not at all.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| Error::os("a pair of sockets", error))
}

/// Limits the time for which anyone who sends or receives here waits from now on.
pub fn limit(socket: &OwnedFd, limit: Duration) -> Result<()> {
    let set = |way| set_socket_timeout(socket, way, Some(limit));
    set(Timeout::Recv)
        .and_then(|()| set(Timeout::Send))
        .map_err(|error| Error::os("limiting a wait", error))
}

/// Sends one message.
pub fn send<T: Serialize>(to: &OwnedFd, message: &T, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let json = json(message)?;
    if json.len() > MESSAGE_BYTES || fds.len() > FDS {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::limit("bytes of a message", json.len(), MESSAGE_BYTES),
            format!("a message of {} bytes is too long", json.len()),
        ));
    }
    let sent = descriptors::send(to, &json, fds);
    sent.map(drop).map_err(|error| Error::os("passing a device on", error))
}

/// Files by numbers, a message each, until the other end is gone.
pub fn handed(from: impl AsFd) -> Result<Vec<(usize, File)>> {
    let mut all = Vec::new();
    while let Some((slot, files)) = receive::<usize>(&from)? {
        all.extend(files.into_iter().map(|file| (slot, file)));
    }
    Ok(all)
}

/// The next message; `None` once the other end is gone.
pub fn receive<T: DeserializeOwned>(from: impl AsFd) -> Result<Option<(T, Vec<File>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    let (count, fds) = match descriptors::receive(&from, &mut bytes) {
        Err(rustix::io::Errno::CONNRESET) | Ok((0, _)) => return Ok(None),
        Err(rustix::io::Errno::AGAIN) => {
            return Err(Error::inner(ErrorKind::TimedOut, "no answer came in time"));
        }
        received => received.map_err(|error| Error::os("receiving a message", error))?,
    };
    let files = fds.into_iter().map(File::from).collect();
    let message = serde_json::from_slice(&bytes[..count]);
    let message = message
        .map_err(|error| Error::inner(ErrorKind::Protocol, format!("a message: {error}")))?;
    Ok(Some((message, files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_with_its_kind() {
        let (ours, theirs) = pair().unwrap();
        let gone = std::fs::read("/no/such/file").map_err(|error| Error::file("f", error));
        send(&theirs, &gone.map(drop).map_err(Refusal::from), &[]).unwrap();
        let (answer, _) = receive::<Answer>(&ours).unwrap().unwrap();
        let error = answer.map_err(Error::from).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().starts_with("f: No such file"), "{error}");
    }

    #[test]
    fn who_says_nothing_is_waited_for_so_long_and_no_longer() {
        let (ours, theirs) = pair().unwrap();
        limit(&ours, Duration::from_millis(20)).unwrap();
        let error = receive::<Answer>(&ours).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        send(&theirs, &Answer::Ok(()), &[]).unwrap();
        assert!(matches!(receive::<Answer>(&ours).unwrap(), Some((Ok(()), _))));
        send(&theirs, &"nothing that answers", &[]).unwrap();
        assert_eq!(receive::<Answer>(&ours).unwrap_err().kind(), ErrorKind::Protocol);
        drop(theirs);
        assert!(receive::<Answer>(&ours).unwrap().is_none());
    }
}
