//! A client's connection to a place: at a socket of this machine, or of its own to another one.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{oneshot, watch};

use crate::error::Result;
use crate::transport::passed::LIMIT;
use crate::transport::sockets::{self, MOST_NEWS, NEWS};

/// Requests under way by their numbers; none when the connection has ended.
type Pending = Mutex<Option<HashMap<u64, oneshot::Sender<Bytes>>>>;

/// A connection, used from any task.
pub struct Near {
    to: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    pending: Arc<Pending>,
    next: AtomicU64,
    reader: tokio::task::JoinHandle<()>,
    /// Bytes of a message, at most.
    most: usize,
    /// Changes never, and is closed with the connection.
    alive: watch::Receiver<()>,
    has_answered: Arc<AtomicBool>,
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Near").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

/// The fate of a message that was to be sent.
#[derive(Debug)]
pub enum Sent {
    Answered(Bytes),
    /// The place has gone before it had all of it: it has not run.
    Not,
    /// The place has gone after it left.
    Lost,
}

/// A connection to a place's socket; none if nobody answers there.
async fn connect(place: &str) -> Result<Option<UnixStream>> {
    if !sockets::is_name(place) {
        return Ok(None);
    }
    let (path, _) = sockets::paths(&sockets::folder()?, place);
    let Ok(stream) = UnixStream::connect(path).await else { return Ok(None) };
    Ok(sockets::is_trusted(&stream).then_some(stream))
}

fn held(pending: &Pending) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Bytes>>>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Near {
    /// Connects to a place; none if nobody answers there.
    pub async fn connect(place: &str) -> Result<Option<Near>> {
        let Some(stream) = connect(place).await? else { return Ok(None) };
        let (from, to) = stream.into_split();
        Ok(Some(Near::over(BufReader::new(from), to, LIMIT)))
    }

    /// One over a stream, whose messages have so many bytes at most.
    pub fn over(
        from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
        most: usize,
    ) -> Near {
        let pending: Arc<Pending> = Arc::new(Mutex::new(Some(HashMap::new())));
        let (live, alive) = watch::channel(());
        let has_answered = Arc::new(AtomicBool::new(false));
        let taken = take(from, Arc::clone(&pending), Arc::clone(&has_answered), most);
        let reader = tokio::spawn(async move {
            taken.await;
            drop(live);
        });
        let to = tokio::sync::Mutex::new(Box::new(to) as Box<_>);
        Near { to, pending, next: AtomicU64::new(1), reader, most, alive, has_answered }
    }

    /// Bytes of a message, at most.
    pub fn most(&self) -> usize {
        self.most
    }

    /// True once a request was answered by it; it may be asked when the connection has gone.
    pub fn answers(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_answered)
    }

    /// Waits until it has ended, or is dropped.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut alive = self.alive.clone();
        async move { while alive.changed().await.is_ok() {} }
    }

    /// True if the place has gone.
    pub fn has_ended(&self) -> bool {
        held(&self.pending).is_none()
    }

    /// Sends a message and waits for its answer, or the connection's end.
    pub async fn ask(&self, message: &[u8]) -> Sent {
        let number = self.next.fetch_add(1, Relaxed);
        let (tell, told) = oneshot::channel();
        match &mut *held(&self.pending) {
            Some(pending) => _ = pending.insert(number, tell),
            None => return Sent::Not,
        }
        let _asked = RequestGuard { near: self, number };
        if !self.say(number, message).await {
            return Sent::Not;
        }
        told.await.map_or(Sent::Lost, Sent::Answered)
    }

    /// Sends a message that nobody answers by its number; false if the connection has ended.
    pub async fn say(&self, number: u64, message: &[u8]) -> bool {
        // Held to the frame's end: what is given up in the middle of it ends the connection.
        let mut to = self.to.lock().await;
        let whole = Whole { near: self, is_whole: false };
        let written = match message.len() <= self.most {
            true => sockets::send(&mut *to, number, message).await.is_ok(),
            false => false,
        };
        whole.end(written);
        written
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A request under way: given up, it is forgotten.
struct RequestGuard<'a> {
    near: &'a Near,
    number: u64,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if let Some(pending) = &mut *held(&self.near.pending) {
            pending.remove(&self.number);
        }
    }
}

/// A frame that is being written.
struct Whole<'a> {
    near: &'a Near,
    is_whole: bool,
}

impl Whole<'_> {
    fn end(mut self, is_whole: bool) {
        self.is_whole = is_whole;
    }
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            // What comes behind half a frame would be read as its rest.
            held(&self.near.pending).take();
            self.near.reader.abort();
        }
    }
}

/// Gives each answer to who has asked, until the connection ends.
async fn take(
    mut from: impl AsyncRead + Unpin,
    pending: Arc<Pending>,
    has_answered: Arc<AtomicBool>,
    most: usize,
) {
    while let Ok(Some((number, reply))) = sockets::read_within(&mut from, most).await {
        let asked = held(&pending).as_mut().and_then(|pending| pending.remove(&number));
        if let Some(asked) = asked {
            has_answered.store(true, Relaxed);
            let _ = asked.send(reply);
        }
    }
    held(&pending).take();
}

/// A sign of a place at a socket, to who watches it.
#[derive(Debug)]
pub enum Sign {
    /// Changes are told from now on.
    Up,
    /// A message with changes.
    Changes(Bytes),
    /// The connection has ended, or there was none to be had.
    Down,
}

/// Hears a place's changes on a connection of its own, which is made anew as long as somebody listens.
pub fn listen(place: String, again: Duration) -> Receiver<Sign> {
    let (tell, signs) = channel(MOST_NEWS);
    tokio::spawn(async move {
        while !tell.is_closed() {
            if hear(&place, &tell).await.is_err() {
                return;
            }
            if tell.send(Sign::Down).await.is_err() {
                return;
            }
            tokio::select! {
                () = tell.closed() => return,
                () = tokio::time::sleep(again) => {}
            }
        }
    });
    signs
}

/// One such connection; an error if nobody listens any more.
async fn hear(place: &str, tell: &Sender<Sign>) -> Result<(), SendError<Sign>> {
    let Ok(Some(stream)) = connect(place).await else { return Ok(()) };
    let (from, mut to) = stream.into_split();
    if sockets::write(&mut to, NEWS, &[]).await.is_err() {
        return Ok(());
    }
    let mut from = BufReader::new(from);
    loop {
        let frame = tokio::select! {
            frame = sockets::read(&mut from) => frame,
            () = tell.closed() => return Ok(()),
        };
        match frame {
            Ok(Some((NEWS, message))) if message.is_empty() => tell.send(Sign::Up).await?,
            Ok(Some((NEWS, message))) => tell.send(Sign::Changes(message)).await?,
            // An answer to nothing that was asked.
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return Ok(()),
        }
    }
}
