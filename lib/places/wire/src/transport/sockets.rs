//! Places of this machine's processes at sockets of their user: where those are, and frames.
//!
//! A place `web.core1` has the socket `web.core1.place` in the folder of
//! [`published`](kumiki_resource::published), which nobody else can write to, and beside it a file whose lock
//! its process holds as long as it serves ([`door`](super::door)). A frame is a number of the client's choice (8 bytes), a length
//! (4 bytes), both little-endian, and a message ([`wire`](crate::wire)); a reply has its request's number.
//!
//! Number 0 is of news: an empty frame of a client asks for them on this connection and is given back, and
//! what comes with it from then on are changes of names ([`Changes`](crate::wire::changes::Changes)).

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use kumiki_resource::Name;
use kumiki_resource::published;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::broadcast;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::transport::passed::{HEAD, LIMIT, PassedMemory, frame, give, head_within};

/// The number of frames with news.
pub const NEWS: u64 = 0;
/// News that wait for a client to take them, at most; then its connection ends, and it knows.
pub const MOST_NEWS: usize = 64;

/// Bytes of a message for which memory is taken before they have come, at most.
const SHORT: usize = 1024;

/// End of a socket's file name.
const PLACE: &str = ".place";

/// The folder of sockets.
pub fn folder() -> Result<PathBuf> {
    Ok(published::folder()?)
}

/// Paths of a place's socket, and of the file that its process holds locked.
pub fn paths(folder: &Path, place: &str) -> (PathBuf, PathBuf) {
    (folder.join(format!("{place}{PLACE}")), folder.join(format!("{place}.lock")))
}

/// True if it can be a place's name, and so a file's.
pub fn is_name(place: &str) -> bool {
    !place.split('.').any(str::is_empty) && Name::new(place, "lease", "a").is_ok()
}

/// Names of places that have sockets; whether somebody answers there is another question.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let failed = |source| Error::Io { what: format!("reading {}", folder.display()), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let place = name.to_str().and_then(|name| name.strip_suffix(PLACE));
        names.extend(place.filter(|place| is_name(place)).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// True if the other end is of this user, or of root.
pub fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::getuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// The process that answers at a place's socket.
pub async fn process(folder: &Path, place: &str) -> Option<u32> {
    let stream = UnixStream::connect(paths(folder, place).0).await.ok()?;
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok()
}

/// Reads a frame; none at the stream's end.
pub async fn read(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Option<(u64, Bytes)>> {
    read_within(from, LIMIT).await
}

/// Reads one whose message has so many bytes at most.
pub async fn read_within(
    from: &mut (impl AsyncReadExt + Unpin),
    most: usize,
) -> io::Result<Option<(u64, Bytes)>> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let (number, bytes) = head_within(head, most)?;
    // As much memory as comes, not as is said.
    let mut message = Vec::with_capacity(bytes.min(SHORT));
    if from.take(bytes as u64).read_to_end(&mut message).await? < bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((number, message.into())))
}

/// Writes a frame.
pub async fn write(
    to: &mut (impl AsyncWriteExt + Unpin),
    number: u64,
    message: &[u8],
) -> io::Result<()> {
    if message.len() > LIMIT {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    send(to, number, message).await
}

/// Writes a frame of a message that the other side takes, as long as it may be.
pub async fn send(
    to: &mut (impl AsyncWriteExt + Unpin),
    number: u64,
    message: &[u8],
) -> io::Result<()> {
    to.write_all(&frame(number, message)).await?;
    to.flush().await
}

/// Writes replies, memory in common where it is given, and news from when they are `wanted` on, until the client has gone or takes no more.
pub async fn deliver(
    mut to: OwnedWriteHalf,
    mut replies: Receiver<(u64, Bytes)>,
    mut wanted: oneshot::Receiver<broadcast::Receiver<Bytes>>,
    mut memory: oneshot::Receiver<PassedMemory>,
) {
    let mut news: Option<broadcast::Receiver<Bytes>> = None;
    let mut has_given = false;
    loop {
        let (number, message) = tokio::select! {
            biased;
            Ok(heard) = &mut wanted, if news.is_none() => {
                news = Some(heard);
                (NEWS, Bytes::new())
            }
            Ok(given) = &mut memory, if !has_given => {
                has_given = true;
                if give(&mut to, &given).await.is_err() {
                    return;
                }
                continue;
            }
            reply = replies.recv() => match reply {
                Some(reply) => reply,
                None => return,
            },
            told = next(&mut news) => match told {
                Ok(told) => (NEWS, told),
                // It has missed some: a new connection asks for what was last.
                Err(_) => return,
            },
        };
        if write(&mut to, number, &message).await.is_err() {
            return;
        }
    }
}

/// The next news; it waits for ever where none are wanted.
async fn next(
    news: &mut Option<broadcast::Receiver<Bytes>>,
) -> Result<Bytes, broadcast::error::RecvError> {
    match news {
        Some(news) => news.recv().await,
        None => std::future::pending().await,
    }
}
