//! The far end of places in another kernel: a program there that passes frames between the sockets of its
//! places and one stream.
//!
//! It holds one connection to each place, so that a place that ends is known at once, and looks for new
//! ones when something changes in the folder of sockets.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod attach;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::inotify;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::error::{Error, Result};
use crate::transport::bundle::{self, FRAMES, Frame, RELAY, RelayMessage};
use crate::transport::sockets::{self, NEWS};
use crate::transport::stdio;
use crate::wire;

/// Requests that wait for one place to take them, at most. One more is dropped, and whoever has sent it asks
/// again: a place that takes none is not to hold up the others.
const MOST_WAITING: usize = 1024;

/// Requests on their way to one place.
type ToPlace = Sender<(u64, Bytes)>;

/// Places that answer.
#[derive(Default)]
struct Places {
    by_number: HashMap<u32, (String, ToPlace)>,
    last: u32,
}

type SharedPlaces = Arc<Mutex<Places>>;

fn held(places: &SharedPlaces) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes frames of this machine's places at sockets whose names begin with `host` and a dot, until the stream
/// ends. It is the far end of [`attach`](attach::attach), and runs where the places do: `folder` is where
/// their sockets are, if that is not where this process has its own.
///
/// # Errors
/// [`Error::Host`]; [`Error::Io`] of the folder of sockets.
pub async fn relay(
    host: &str,
    folder: Option<&Path>,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
) -> Result<()> {
    crate::wire::host::check_host(host)?;
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => sockets::folder()?,
    };
    let (frames, leaving) = channel(FRAMES);
    let places = SharedPlaces::default();
    tokio::select! {
        () = take(from, &places) => Ok(()),
        () = bundle::send(to, leaving) => Ok(()),
        outcome = look(&folder, host, &places, frames) => outcome,
    }
}

/// Relays between this process' standard input and output, which are pipes or sockets.
///
/// # Errors
/// As [`relay`]; [`Error::Io`] if they are something else.
pub async fn relay_stdio(host: &str, folder: Option<&Path>) -> Result<()> {
    let (from, to) = stdio::ends()?;
    relay(host, folder, from, to).await
}

/// Gives requests to their places, until the stream ends.
async fn take(from: impl AsyncRead + Unpin, places: &SharedPlaces) {
    let mut from = BufReader::new(from);
    while let Ok(Some(frame)) = Frame::read(&mut from).await {
        // One that has gone was told to have.
        if let Some((_, to)) = held(places).by_number.get(&frame.place) {
            let _ = to.try_send((frame.number, frame.message));
        }
    }
}

/// Looks for places, now and whenever the folder changes.
async fn look(
    folder: &Path,
    host: &str,
    places: &SharedPlaces,
    frames: Sender<Frame>,
) -> Result<()> {
    let failed =
        |source: io::Error| Error::Io { what: format!("watching {}", folder.display()), source };
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let changes = inotify::init(flags).map_err(|error| failed(error.into()))?;
    // A socket is a name first, then somebody listens, then others are kept from it.
    let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::ATTRIB;
    inotify::add_watch(&changes, folder, events).map_err(|error| failed(error.into()))?;
    // Read as a pipe is, though it is none.
    let mut changes = pipe::Receiver::from_owned_fd_unchecked(changes).map_err(failed)?;
    let prefix = format!("{host}.");
    let mut is_first = true;
    loop {
        for place in sockets::names(folder)? {
            let is_known = held(places).by_number.values().any(|(name, _)| *name == place);
            if !place.starts_with(&prefix) || is_known {
                continue;
            }
            let (path, _) = sockets::paths(folder, &place);
            // Left by a process that was killed, or not yet listened at.
            let Ok(stream) = UnixStream::connect(path).await else { continue };
            if sockets::is_trusted(&stream) && !begin(place, stream, places, &frames).await {
                return Ok(());
            }
        }
        if std::mem::take(&mut is_first) && !tell(&frames, &RelayMessage::Told).await {
            return Ok(());
        }
        // Which names they are of does not matter.
        changes.read(&mut [0; 4096]).await.map_err(failed)?;
    }
}

/// Tells that a place is there, and passes its frames from now on; whether anybody hears it.
async fn begin(
    place: String,
    stream: UnixStream,
    places: &SharedPlaces,
    frames: &Sender<Frame>,
) -> bool {
    let (to, requests) = channel(MOST_WAITING);
    // Names that come and go are told to whoever watches, at the near end.
    let _ = to.try_send((NEWS, Bytes::new()));
    let number = {
        let mut places = held(places);
        places.last += 1;
        let number = places.last;
        places.by_number.insert(number, (place.clone(), to));
        number
    };
    if !tell(frames, &RelayMessage::There { number, place }).await {
        return false;
    }
    let (places, frames) = (Arc::clone(places), frames.clone());
    tokio::spawn(async move {
        pass(number, stream, requests, &frames).await;
        held(&places).by_number.remove(&number);
        tell(&frames, &RelayMessage::Gone { number }).await;
    });
    true
}

async fn tell(frames: &Sender<Frame>, word: &RelayMessage) -> bool {
    let Ok(message) = wire::message(word) else { return false };
    frames.send(Frame::new(RELAY, 0, message)).await.is_ok()
}

/// Passes one place's frames both ways, until it ends.
async fn pass(
    place: u32,
    stream: UnixStream,
    mut requests: Receiver<(u64, Bytes)>,
    frames: &Sender<Frame>,
) {
    let (from, mut to) = stream.into_split();
    let write = async {
        while let Some((number, message)) = requests.recv().await {
            if sockets::write(&mut to, number, &message).await.is_err() {
                // It has ended: what it has answered before is still to be read, and then its end.
                std::future::pending::<()>().await;
            }
        }
    };
    let read = async {
        let mut from = BufReader::new(from);
        while let Ok(Some((number, message))) = sockets::read(&mut from).await {
            if frames.send(Frame::new(place, number, message)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}
