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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{timeout, timeout_at};

use crate::error::{Error, Result};
use crate::refused::Why;
use crate::transport::direct::{ADMISSION, AdmittedWriter, GREETING, PlaceKey, Tokens, admit};
use crate::transport::passed::frame;
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
}

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
    /// Listens; what comes is to be answered from the queue that it gives.
    pub fn open(
        listen: ListenAt,
        (most, holds): (usize, Duration),
        busy: Arc<Busy>,
    ) -> Result<(Arc<Direct>, Receiver<Letter>)> {
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
        let (letters, come) = channel(REQUESTS);
        tokio::spawn(Arc::clone(&direct).accept(listener, letters));
        Ok((direct, come))
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
    async fn accept(self: Arc<Self>, listener: TcpListener, letters: Sender<Letter>) {
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
                    tokio::spawn(async move {
                        direct.attend(stream, greeting, letters).await;
                        drop(client);
                    });
                }
                // No descriptor is left, say.
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Passes one client's requests on until it goes, is let in no more, or the place ends; what was answered leaves.
    async fn attend(
        &self,
        stream: TcpStream,
        greeting: OwnedSemaphorePermit,
        letters: Sender<Letter>,
    ) {
        let greeted = timeout(GREETING, admit(stream, &self.key, &self.tokens)).await;
        drop(greeting);
        let Ok(Some((mut from, to))) = greeted else { return };
        let _connected = self.busy.connected();
        let (back, replies) = channel::<(u64, Bytes)>(MOST_OF_ONE);
        let read = async move {
            let mut until = tokio::time::Instant::now() + self.holds;
            loop {
                let frame = tokio::select! {
                    frame = timeout_at(until, sockets::read_within(&mut from, self.most)) => frame,
                    () = letters.closed() => return,
                };
                let Ok(Ok(Some((number, payload)))) = frame else { return };
                if number == ADMISSION {
                    if !self.tokens.take(&payload, Instant::now()) {
                        return;
                    }
                    until = tokio::time::Instant::now() + self.holds;
                    continue;
                }
                let Ok(room) = back.clone().reserve_owned().await else { return };
                let letter = Letter { payload, back: Back::Direct(number, room) };
                if letters.send(letter).await.is_err() {
                    return;
                }
            }
        };
        let read = async {
            read.await;
            // What it still waits for leaves yet.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = deliver(to, replies) => {}
            () = read => {}
        }
    }
}

/// Writes replies until there are none to come, or the client takes no more.
async fn deliver(mut to: AdmittedWriter, mut replies: Receiver<(u64, Bytes)>) {
    while let Some((number, reply)) = replies.recv().await {
        let mut frames = frame(number, &reply);
        while frames.len() < TOGETHER {
            let Ok((number, reply)) = replies.try_recv() else { break };
            frames.extend_from_slice(&frame(number, &reply));
        }
        let written = async {
            to.write_all(&frames).await?;
            to.flush().await
        };
        if !matches!(timeout(TAKING, written).await, Ok(Ok(()))) {
            return;
        }
    }
}
