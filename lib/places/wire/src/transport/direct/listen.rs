//! A place's connections with single clients, beside its NATS server: who has asked for one by NATS is let in.
//!
//! What comes by one is answered as if NATS had brought it: the place's own loop takes both in turns. A stranger who connects
//! gets no further than a greeting, and no more of them are greeted at a time than [`MOST_GREETINGS`].

use std::fmt;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::service;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{OwnedPermit, Receiver, Sender, channel};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep_until, timeout};

use crate::error::{Error, Result};
use crate::refused::Why;
use crate::transport::direct::{
    ADMISSION, AdmittedReader, AdmittedWriter, GREETING, PlaceKey, Tokens, admit,
};
use crate::transport::passed::{add_frame, begins_with_frame};
use crate::transport::sockets;
use crate::wire::busy::Busy;
use crate::wire::{DirectOffer, Refusal};

/// Clients of one place with connections of their own, at most; others stay with NATS.
const MOST_CLIENTS: usize = 1024;
/// Connections that have sent no token yet, at most; others wait to be greeted.
const MOST_GREETINGS: usize = 64;
/// Requests that wait for the place, at most.
const REQUESTS: usize = 64;
/// Requests of one client that are under way, at most; then its next ones wait.
const MOST_OF_ONE: usize = 256;
/// Bytes of replies that leave together, about.
const TOGETHER: usize = 64 << 10;
/// Time that one client's requests take of the place's thread, about, before others and the place itself have a turn.
const TURN: Duration = Duration::from_millis(1);
/// Pause where a connection cannot be accepted.
const PAUSE: Duration = Duration::from_millis(50);
/// Time in which a client is to take what is written to it.
const TAKING: Duration = Duration::from_secs(10);

/// Address at which a place listens, and the one by which clients reach it.
#[derive(Clone, Copy, Debug)]
pub struct ListenAt {
    pub at: SocketAddr,
    pub reached: Option<SocketAddr>,
}

impl ListenAt {
    /// Gives that of the place of this number among those of a server: each has a port of its own.
    pub fn of(self, number: usize) -> Result<ListenAt> {
        let next = |address: SocketAddr| -> Result<SocketAddr> {
            let port = match address.port() {
                0 => Some(0),
                port => u16::try_from(usize::from(port) + number).ok(),
            };
            let why = || "a port behind 65535 would be needed: each place has one of its own";
            let port = port.ok_or_else(|| failed(address, why()))?;
            Ok(SocketAddr::new(address.ip(), port))
        };
        Ok(ListenAt { at: next(self.at)?, reached: self.reached.map(next).transpose()? })
    }
}

fn failed(at: SocketAddr, why: impl ToString) -> Error {
    let what = format!("listening at {at} for connections of callers' own");
    Error::Io { what, source: std::io::Error::other(why.to_string()) }
}

/// A request that has come, by whichever way.
pub struct Letter {
    pub payload: Bytes,
    pub back: Back,
    /// Operations of it have begun.
    pub has_begun: bool,
}

/// Outcome of a request that was asked at once, on its connection's task.
#[derive(Debug)]
pub enum AtOnce {
    Reply(Bytes),
    /// The place's queue is to answer it; operations of it have begun, or none has.
    Queue {
        has_begun: bool,
    },
}

/// Answers a request at once, if it can be.
pub type Ask = Arc<dyn Fn(&[u8]) -> AtOnce + Send + Sync>;

/// A reply's way back.
pub enum Back {
    Nats(Box<service::Request>),
    /// The request's number, and room for its reply.
    Direct(u64, OwnedPermit<(u64, Bytes)>),
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Letter").field("bytes", &self.payload.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Back::Nats(_) => f.write_str("Nats"),
            Back::Direct(number, _) => write!(f, "Direct({number})"),
        }
    }
}

impl Back {
    /// Sends the reply. Who does not hear it asks again.
    pub async fn respond(self, reply: Bytes) {
        match self {
            Back::Nats(request) => _ = request.respond(Ok(reply)).await,
            Back::Direct(number, room) => _ = room.send((number, reply)),
        }
    }
}

/// An open port, whose callers are not let in yet.
#[derive(Debug)]
pub struct OpenPort {
    direct: Arc<Direct>,
    listener: TcpListener,
}

/// A place that listens.
pub struct Direct {
    address: SocketAddr,
    key: PlaceKey,
    tokens: Tokens,
    /// Bytes of a message, at most.
    most: usize,
    /// Time that a connection holds after a token.
    holds: Duration,
    busy: Arc<Busy>,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Direct {
    /// Listens.
    pub fn open(
        listen: ListenAt,
        (most, holds): (usize, Duration),
        busy: Arc<Busy>,
    ) -> Result<(Arc<Direct>, OpenPort)> {
        let ListenAt { at, reached } = listen;
        let listener = StdListener::bind(at).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let own = listener.local_addr()?;
            Ok((TcpListener::from_std(listener)?, own))
        });
        let (listener, own) = listener.map_err(|error| failed(at, error))?;
        let mut address = reached.unwrap_or(own);
        if address.port() == 0 {
            address.set_port(own.port());
        }
        if address.ip().is_unspecified() {
            let why = format!(
                "callers cannot be told to connect to {}: name the address by which they reach it",
                address.ip()
            );
            return Err(failed(at, why));
        }
        let (key, tokens) = (PlaceKey::draw()?, Tokens::default());
        let direct = Arc::new(Direct { address, key, tokens, most, holds, busy });
        Ok((Arc::clone(&direct), OpenPort { direct, listener }))
    }

    /// Offers a connection to a client that has asked for one.
    pub fn offer(&self) -> Result<DirectOffer, Refusal> {
        let token = self.tokens.give(Instant::now());
        let token = token.map_err(|error| Refusal::new(Why::Kind, error.to_string()))?;
        let holds_ms = u64::try_from(self.holds.as_millis()).unwrap_or(u64::MAX);
        let (address, key) = (self.address.to_string(), self.key.public().clone());
        Ok(DirectOffer { address, key, token, holds_ms, most: self.most as u64 })
    }

    /// Lets clients in until the place ends.
    async fn accept(self: Arc<Self>, listener: TcpListener, ask: Ask, letters: Sender<Letter>) {
        let clients = Arc::new(Semaphore::new(MOST_CLIENTS));
        let greetings = Arc::new(Semaphore::new(MOST_GREETINGS));
        loop {
            let next = async {
                let client = Arc::clone(&clients).acquire_owned().await;
                let greeting = Arc::clone(&greetings).acquire_owned().await;
                (listener.accept().await, client, greeting)
            };
            let accepted = tokio::select! {
                next = next => next,
                () = letters.closed() => return,
            };
            match accepted {
                (Ok((stream, _)), Ok(client), Ok(greeting)) => {
                    let (direct, letters) = (Arc::clone(&self), letters.clone());
                    let ask = Arc::clone(&ask);
                    tokio::spawn(async move {
                        direct.attend(stream, greeting, ask, letters).await;
                        drop(client);
                    });
                }
                // No descriptor is left, say.
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Answers one client's requests, or passes them on, until it goes, is let in no more, or the place ends; what was
    /// answered leaves.
    async fn attend(
        &self,
        stream: TcpStream,
        greeting: OwnedSemaphorePermit,
        ask: Ask,
        letters: Sender<Letter>,
    ) {
        let greeted = timeout(GREETING, admit(stream, &self.key, &self.tokens)).await;
        drop(greeting);
        let Ok(Some((from, to, given))) = greeted else { return };
        let _connected = self.busy.connected();
        let (back, replies) = channel::<(u64, Bytes)>(MOST_OF_ONE);
        let to = Mutex::new(to);
        let read = async {
            if self.read((from, given), &to, (ask, back), letters).await.is_some() {
                // What it still waits for leaves yet.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = deliver(&to, replies) => {}
            () = read => {}
        }
    }

    /// Reads requests until there are none to come; none if the client takes no more.
    ///
    /// What can be answered at once is, and its reply leaves from here: no other task is woken for it. Where whole requests
    /// have come together, so do their replies leave.
    async fn read(
        &self,
        (mut from, given): (AdmittedReader, Instant),
        to: &Mutex<AdmittedWriter>,
        (ask, back): (Ask, Sender<(u64, Bytes)>),
        letters: Sender<Letter>,
    ) -> Option<()> {
        // From when the token was given by NATS: one that was kept until it is shown is no later permission.
        let mut over = std::pin::pin!(sleep_until((given + self.holds).into()));
        let mut closed = std::pin::pin!(letters.closed());
        let (mut frames, mut took) = (Vec::new(), Duration::ZERO);
        loop {
            if frames.len() >= TOGETHER || !begins_with_frame(from.buffer(), self.most) {
                write(to, &mut frames).await?;
            }
            let frame = tokio::select! {
                // First: requests that never rest do not keep a connection.
                biased;
                () = &mut over => break,
                () = &mut closed => break,
                frame = sockets::read_within(&mut from, self.most) => frame,
            };
            let Ok(Some((number, payload))) = frame else { break };
            if number == ADMISSION {
                let Some(given) = self.tokens.take(&payload, Instant::now()) else { break };
                let later = (given + self.holds).into();
                if later > over.deadline() {
                    over.as_mut().reset(later);
                }
                continue;
            }
            let begin = Instant::now();
            let asked = ask(&payload);
            took += begin.elapsed();
            let has_begun = match asked {
                AtOnce::Reply(reply) => {
                    add_frame(&mut frames, number, &reply);
                    if took > TURN {
                        write(to, &mut frames).await?;
                        tokio::task::yield_now().await;
                        took = Duration::ZERO;
                    }
                    continue;
                }
                AtOnce::Queue { has_begun } => has_begun,
            };
            // What is answered does not wait for what is not.
            write(to, &mut frames).await?;
            let Ok(room) = back.clone().reserve_owned().await else { break };
            let letter = Letter { payload, back: Back::Direct(number, room), has_begun };
            if letters.send(letter).await.is_err() {
                break;
            }
        }
        write(to, &mut frames).await
    }
}

impl OpenPort {
    /// Lets clients in. What `ask` does not answer is to be answered from the queue that this gives, whose end ends it.
    pub fn serve(self, ask: Ask) -> Receiver<Letter> {
        let (letters, come) = channel(REQUESTS);
        tokio::spawn(self.direct.accept(self.listener, ask, letters));
        come
    }
}

/// Writes replies until there are none to come, or the client takes no more.
async fn deliver(to: &Mutex<AdmittedWriter>, mut replies: Receiver<(u64, Bytes)>) {
    let mut frames = Vec::new();
    while let Some((number, reply)) = replies.recv().await {
        add_frame(&mut frames, number, &reply);
        while frames.len() < TOGETHER {
            let Ok((number, reply)) = replies.try_recv() else { break };
            add_frame(&mut frames, number, &reply);
        }
        if write(to, &mut frames).await.is_none() {
            return;
        }
    }
}

/// Writes what frames there are, of which there are none then; none if the client does not take them.
async fn write(to: &Mutex<AdmittedWriter>, frames: &mut Vec<u8>) -> Option<()> {
    if frames.is_empty() {
        return Some(());
    }
    let mut to = to.lock().await;
    let written = async {
        to.write_all(frames).await?;
        to.flush().await
    };
    timeout(TAKING, written).await.ok()?.ok()?;
    frames.clear();
    Some(())
}
