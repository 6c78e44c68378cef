//! Places of another kernel as places of this machine: the near end of their stream.
//!
//! Each place there has a socket here, at which `Client::here` calls it as any other
//! process' place. Messages from the other kernel are untrusted: a name must be one that may be
//! had there, and an answer one that somebody waits for; all else is dropped. When the stream ends, because
//! the other kernel has, the sockets go and every connection with them, and so each pending call is
//! answered at once.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{OwnedPermit, Sender, channel};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::Result;
use crate::transport::bundle::{self, FRAMES, Frame, MOST_UNDER_WAY, RELAY, RelayMessage};
use crate::transport::door::{Door, sweep};
use crate::transport::sockets::{self, MOST_NEWS, NEWS};
use crate::transport::stdio;
use crate::wire;

/// Pause after a client could not be let in.
const LOOK: Duration = Duration::from_millis(50);
/// Time for which a client of a place that has gone may take its last answers.
const LAST: Duration = Duration::from_secs(1);
/// Requests of one client under way at a time, at most; the oldest is given up for one more.
const MOST_OF_ONE: usize = 256;
/// Clients of one place at a time, at most; more wait to be let in.
const MOST_CLIENTS: usize = 1024;
/// Places of one stream at a time, at most; there are no more sockets of one.
const MOST_PLACES: usize = 1024;

/// News of a kernel whose places are attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// A place answers at its socket.
    There(String),
    /// The place answers no more.
    Gone(String),
    /// A place there has a name that it may not have here, or that another process here has.
    Refused {
        /// Its name.
        place: String,
        /// Reason.
        why: String,
    },
}

/// Makes the places of another kernel places of this machine, for processes of this user: those whose names
/// begin with `host` and a dot. `from` and `to` are the ends of a stream to a [`relay`](super::relay)
/// there. It ends with the stream, and is to be given up by dropping it; the places then are gone.
///
/// # Errors
/// [`Error::Host`]; the folder of sockets.
pub async fn attach(
    host: &str,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    tell: impl Fn(Attached),
) -> Result<()> {
    crate::wire::host::check_host(host)?;
    let (frames, leaving) = channel(FRAMES);
    let folder = sockets::folder()?;
    sweep(&folder);
    let near = Attach { folder, prefix: format!("{host}."), frames, tell };
    tokio::select! {
        () = near.take(from) => {}
        () = bundle::send(to, leaving) => {}
    }
    Ok(())
}

/// Attaches by this process' standard input and output, which are pipes or sockets: where the far end has
/// started it.
///
/// # Errors
/// As [`attach`]; [`Error::Io`] if they are something else.
pub async fn attach_stdio(host: &str, tell: impl Fn(Attached)) -> Result<()> {
    let (from, to) = stdio::ends()?;
    attach(host, from, to, tell).await
}

/// The near end.
struct Attach<F> {
    folder: PathBuf,
    prefix: String,
    frames: Sender<Frame>,
    tell: F,
}

/// One place there; dropped, it is gone here.
struct Place {
    shared: Arc<AttachedState>,
    /// Its socket, which gives its clients when it is closed.
    socket: JoinSet<JoinSet<()>>,
    /// True when the place has gone.
    over: watch::Sender<bool>,
}

impl Place {
    /// Closes its socket, so that another life of it may open one. Its clients have what it has answered, and then
    /// their end; one that takes nothing is cut off after [`LAST`].
    async fn end(mut self) -> JoinSet<()> {
        self.over.send_replace(true);
        // Whoever waits for an answer of it gets none any more.
        self.shared.pending().clear();
        self.socket.join_next().await.and_then(Result::ok).unwrap_or_default()
    }
}

/// Waits for clients that are taking their last answers.
async fn last_answers(mut clients: JoinSet<()>) {
    let all = async { while clients.join_next().await.is_some() {} };
    let _ = timeout(LAST, all).await;
}

struct AttachedState {
    name: String,
    number: u32,
    frames: Sender<Frame>,
    /// Requests under way by their numbers there.
    pending: Mutex<BTreeMap<u64, PendingRequest>>,
    next: AtomicU64,
    news: broadcast::Sender<Bytes>,
}

/// A request under way: room for its answer, at its client.
struct PendingRequest {
    client: u64,
    number: u64,
    to: OwnedPermit<(u64, Bytes)>,
}

impl<F: Fn(Attached)> Attach<F> {
    /// Takes frames until the stream ends, or is none.
    async fn take(&self, from: impl AsyncRead + Unpin) {
        let mut from = BufReader::new(from);
        let mut places: HashMap<u32, Place> = HashMap::new();
        while let Ok(Some(Frame { place, number, message })) = Frame::read(&mut from).await {
            if place != RELAY {
                if let Some(place) = places.get(&place) {
                    place.shared.answered(number, message);
                }
                continue;
            }
            match wire::parse::<RelayMessage>(&message) {
                Ok(RelayMessage::There { number, place }) => {
                    let is_one = places.len() < MOST_PLACES && !places.contains_key(&number);
                    if let Some(begun) = is_one.then(|| self.begin(number, place)).flatten() {
                        places.insert(number, begun);
                    }
                }
                Ok(RelayMessage::Gone { number }) => {
                    if let Some(place) = places.remove(&number) {
                        let name = place.shared.name.clone();
                        tokio::spawn(last_answers(place.end().await));
                        (self.tell)(Attached::Gone(name));
                    }
                }
                // Nobody here waits for it. A later version's.
                Ok(RelayMessage::Told) | Err(_) => {}
            }
        }
        let mut clients = JoinSet::new();
        for (_, place) in places {
            clients.spawn(last_answers(place.end().await));
        }
        while clients.join_next().await.is_some() {}
    }

    /// Opens a socket for a place there.
    fn begin(&self, number: u32, name: String) -> Option<Place> {
        let refused = |place, why: String| (self.tell)(Attached::Refused { place, why });
        if !sockets::is_name(&name) {
            refused(name, "it can be no place's name".to_owned());
            return None;
        }
        if !name.starts_with(&self.prefix) {
            refused(name, format!("it does not begin with {}", self.prefix));
            return None;
        }
        let door = match Door::open(&self.folder, &name) {
            Ok(door) => door,
            Err(error) => {
                refused(name, error.to_string());
                return None;
            }
        };
        let shared = Arc::new(AttachedState {
            name: name.clone(),
            number,
            frames: self.frames.clone(),
            pending: Mutex::default(),
            next: AtomicU64::new(NEWS + 1),
            news: broadcast::channel(MOST_NEWS).0,
        });
        let (over, is_over) = watch::channel(false);
        let mut socket = JoinSet::new();
        socket.spawn(serve(door, Arc::clone(&shared), is_over));
        (self.tell)(Attached::There(name));
        Some(Place { shared, socket, over })
    }
}

impl AttachedState {
    fn pending(&self) -> MutexGuard<'_, BTreeMap<u64, PendingRequest>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an answer to who waits for it.
    fn answered(&self, number: u64, message: Bytes) {
        if number == NEWS {
            // An empty one says that news will come.
            if !message.is_empty() {
                let _ = self.news.send(message);
            }
            return;
        }
        let asked = self.pending().remove(&number);
        if let Some(asked) = asked {
            asked.to.send((asked.number, message));
        }
    }

    /// Gives up the oldest of these requests: a place does not answer a message whose client has sent it
    /// again since. Who waits for the answer after all asks again, and finds it kept.
    fn forget(&self, of: impl Fn(&PendingRequest) -> bool) {
        let mut pending = self.pending();
        let oldest = pending.iter().find(|(_, asked)| of(asked)).map(|(number, _)| *number);
        if let Some(oldest) = oldest {
            pending.remove(&oldest);
        }
    }

    /// Passes one client's requests on, until it goes or the place has: then it is given what was answered.
    async fn attend(&self, client: u64, stream: UnixStream, mut over: watch::Receiver<bool>) {
        let (from, to) = stream.into_split();
        let (back, replies) = channel::<(u64, Bytes)>(MOST_OF_ONE);
        let (want, wanted) = oneshot::channel();
        // No memory is in common with another kernel.
        let (_give, given) = oneshot::channel();
        let mut want = Some(want);
        let read = async {
            let mut from = BufReader::new(from);
            while let Ok(Some((number, message))) = sockets::read(&mut from).await {
                if number == NEWS && message.is_empty() {
                    if let Some(want) = want.take() {
                        let _ = want.send(self.news.subscribe());
                    }
                    continue;
                }
                // Room for the answer first: none is to wait for its client.
                if back.capacity() == 0 {
                    self.forget(|asked| asked.client == client);
                }
                let Ok(to) = back.clone().reserve_owned().await else { return };
                if self.pending().len() >= MOST_UNDER_WAY {
                    self.forget(|_| true);
                }
                let there = self.next.fetch_add(1, Relaxed);
                self.pending().insert(there, PendingRequest { client, number, to });
                if self.frames.send(Frame::new(self.number, there, message)).await.is_err() {
                    return;
                }
            }
        };
        let mut deliver = std::pin::pin!(sockets::deliver(to, replies, wanted, given));
        let is_over = tokio::select! {
            () = &mut deliver => false,
            () = read => false,
            _ = over.wait_for(|is_over| *is_over) => true,
        };
        self.pending().retain(|_, asked| asked.client != client);
        if is_over {
            // It ends behind the last one.
            drop(back);
            deliver.await;
        }
    }
}

/// Lets clients of a place in, until it is gone; gives those that there are then.
async fn serve(
    door: Door,
    shared: Arc<AttachedState>,
    mut over: watch::Receiver<bool>,
) -> JoinSet<()> {
    let clients = Arc::new(Semaphore::new(MOST_CLIENTS));
    let mut tasks = JoinSet::new();
    let mut last = 0;
    loop {
        while tasks.try_join_next().is_some() {}
        let accepted = async {
            // It is never closed.
            let permit = Arc::clone(&clients).acquire_owned().await.ok();
            (permit, door.listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = over.wait_for(|is_over| *is_over) => return tasks,
        };
        match accepted {
            Ok((stream, _)) if sockets::is_trusted(&stream) => {
                last += 1;
                let (shared, client, over) = (Arc::clone(&shared), last, over.clone());
                tasks.spawn(async move {
                    shared.attend(client, stream, over).await;
                    drop(permit);
                });
            }
            // Another user's connection is closed.
            Ok(_) => {}
            // No descriptor is left, say.
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}
