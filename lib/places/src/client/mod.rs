//! Calling places behind a NATS server.

pub(crate) mod arrival;
pub(crate) mod bound;
pub(crate) mod choose;
pub(crate) mod direct;
pub(crate) mod discover;
pub(crate) mod each;
pub(crate) mod greeting;
pub(crate) mod loads;
pub(crate) mod named;
pub(crate) mod news;
pub(crate) mod once;
#[cfg(feature = "run")]
pub mod program;
pub(crate) mod sending;
pub(crate) mod steps;
pub(crate) mod taking;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use kumiki_resource::kind::Kind;
use kumiki_resource::{Id, Listed, Name, Rights};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use crate::client::loads::Loads;
use crate::client::named::Names;
use crate::error::{Error, Result};
use crate::lease::Session;
use crate::part::{Part, Portable};
use crate::reference::Reference;
use crate::transport::nats::{Link, Nats};
use crate::transport::passed::LIMIT;
use crate::wire::secret;
use crate::wire::{self, Offer, Operation, Outcome, Page, Why};

/// Time for which a call is tried by default.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two looks whether a lease wants to be renewed.
const RENEW: Duration = Duration::from_secs(5);

/// A client of places behind a NATS server. Cheap to clone, used from any task.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    pub(crate) patience: Duration,
}

pub(crate) struct Inner {
    pub(crate) way: Way,
    /// Name for a person who looks at a place's leases.
    pub(crate) name: String,
    pub(crate) loads: Arc<Loads>,
    /// Ids and versions of names that were called by JSON.
    pub(crate) names: Names,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// A lease was granted.
    pub(crate) greeted: Arc<Notify>,
}

/// Ways to places.
pub(crate) enum Way {
    Nats {
        nats: async_nats::Client,
        link: watch::Receiver<Link>,
    },
    /// Sockets of this machine's processes.
    Here,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to the server, in a tokio runtime. What is under way when the connection is
    /// lost is asked again when there is another one.
    ///
    /// # Errors
    /// [`Error::Connect`]; credentials that cannot be read.
    pub async fn connect(nats: &Nats) -> Result<Client> {
        let name = caller_name();
        let (nats, link) = nats.connect(&name).await?;
        Ok(Client::by(Way::Nats { nats, link }, name))
    }

    /// A client of places of this user's other processes on this machine ([`Server::here`](
    /// crate::Server::here)), in a tokio runtime. Their calls are the same; a place that ends or is killed is
    /// known at once.
    pub fn here() -> Client {
        Client::by(Way::Here, caller_name())
    }

    fn by(way: Way, name: String) -> Client {
        let (loads, names, sessions) = (Arc::default(), Names::default(), Mutex::default());
        let greeted = Arc::new(Notify::new());
        let inner = Inner { way, name, loads, names, sessions, greeted: Arc::clone(&greeted) };
        let inner = Arc::new(inner);
        tokio::spawn(renew(Arc::downgrade(&inner), greeted));
        Client { inner, patience: PATIENCE }
    }

    /// Limits for how long calls are tried: ten seconds, if nothing is said.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Client {
        Client { inner: Arc::clone(&self.inner), patience: timeout }
    }

    /// Bytes that one call may take, or give, for certain: half of what the server, or the socket, has for a message.
    pub fn room(&self) -> usize {
        self.inner.limit() / 2
    }

    /// True if calls of this place go by a connection of this client's own, which the place listens for
    /// ([`Server::listening`](crate::Server::listening)). It is made aside, when the place was first called: until then, and
    /// whenever it does not hold, calls go by NATS.
    pub fn has_direct(&self, place: &str) -> bool {
        let sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(place).is_some_and(|session| session.direct.at(0).is_some())
    }

    /// Reason for which calls of this place do not go by a connection of this client's own, where the place listens for one
    /// and it could not be made: it is tried again, and calls go by NATS meanwhile.
    pub fn why_not_direct(&self, place: &str) -> Option<String> {
        let sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(place).and_then(|session| session.direct.why_not())
    }

    pub(crate) fn session(&self, place: &str) -> Arc<Session> {
        let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(place) {
            return Arc::clone(session);
        }
        let session = Arc::new(Session::new(place));
        sessions.insert(place.to_owned(), Arc::clone(&session));
        session
    }

    /// Makes a resource at `place`, `hostb.core3`; the reference has all rights.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`] and [`Error::Refused`]: none was made.
    /// [`Error::Unknown`]: perhaps one was.
    pub async fn create<K: Portable>(
        &self,
        place: &str,
        unique: Option<&str>,
        spec: K::Spec,
    ) -> Result<Reference<K>> {
        let operation = Operation::Create {
            kind: K::NAME.to_owned(),
            version: K::VERSION,
            unique: unique.map(str::to_owned),
            spec: written(K::NAME, &spec)?,
        };
        let (life, answer) = self.ask_with_life(place, 0, operation).await?;
        let id = Id::from_u64(decode(K::NAME, &answer)?);
        Ok(Reference::new(self.session(place).place.clone(), life, id, Rights::all()))
    }

    /// Makes many resources at `place`, each with a name or none and its wishes, by as few messages as they find room in;
    /// an outcome for each, in their order.
    ///
    /// # Errors
    /// Each as [`create`](Self::create)'s.
    pub async fn create_each<K: Portable>(
        &self,
        place: &str,
        wishes: impl IntoIterator<Item = (Option<String>, K::Spec)>,
    ) -> Vec<Result<Reference<K>>> {
        let create = |(unique, spec): (Option<String>, K::Spec)| {
            let (kind, version) = (K::NAME.to_owned(), K::VERSION);
            Ok(Operation::Create { kind, version, unique, spec: written(K::NAME, &spec)? })
        };
        let operations: Vec<Result<Operation>> = wishes.into_iter().map(create).collect();
        let (mut sent, mut outcomes) = (Vec::new(), Vec::with_capacity(operations.len()));
        for operation in operations {
            // What cannot be written is not sent, and keeps its place.
            outcomes.push(operation.map(|operation| sent.push(operation)));
        }
        let mut answers = self.ask_all(place, 0, sent).await.into_iter();
        let place = self.session(place).place.clone();
        let made = |answer: Result<(u64, Bytes)>| {
            let (life, answer) = answer?;
            let id = Id::from_u64(decode(K::NAME, &answer)?);
            Ok(Reference::new(place.clone(), life, id, Rights::all()))
        };
        let each = outcomes.into_iter().map(|outcome| {
            outcome.and_then(|()| made(answers.next().expect("one answer an operation")))
        });
        each.collect()
    }

    /// Runs a program part on a resource, by its place's owner: once, or not at all, and the
    /// error says which, or that it is not known.
    ///
    /// # Errors
    /// [`Error::Rights`] without [`Rights::USE`]; [`Error::Gone`], [`Error::NotSent`] and
    /// [`Error::Refused`]: it has not run, apart from [`Why::Panicked`] and
    /// [`Why::AnswerTooLarge`]. [`Error::Unknown`]: it has run once or not at all.
    pub async fn call<P: Part>(&self, on: &Reference<P::Kind>, input: P::In) -> Result<P::Out> {
        on.require(Rights::USE)?;
        let operation = call::<P>(on.id().to_u64(), &input)?;
        let (_, answer) = self.ask_with_life(on.place(), on.life(), operation).await?;
        decode(P::NAME, &answer)
    }

    /// Destroys a resource. Other references of it are stale from then on.
    ///
    /// # Errors
    /// As [`call`](Self::call), with [`Rights::DESTROY`].
    pub async fn destroy<K: Portable>(&self, what: Reference<K>) -> Result<()> {
        what.require(Rights::DESTROY)?;
        let operation = Operation::Destroy { id: what.id().to_u64(), kind: K::NAME.to_owned() };
        let (_, answer) = self.ask_with_life(what.place(), what.life(), operation).await?;
        decode(K::NAME, &answer)
    }

    /// A reference to the resource called `name`, to use and to share.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`], [`Error::Unanswered`], [`Error::Refused`]; [`Error::Value`] if the name is
    /// of another kind than `K`.
    pub async fn open<K: Kind>(&self, name: &Name) -> Result<Reference<K>> {
        if name.kind() != K::NAME {
            let why = format!("it is of kind {}, not {}", name.kind(), K::NAME);
            return Err(Error::Value { what: format!("opening {name}"), why });
        }
        let (kind, unique) = (name.kind().to_owned(), name.unique().to_owned());
        let (life, answer) =
            self.ask_with_life(name.place(), 0, Operation::Open { kind, unique }).await?;
        let id = Id::from_u64(decode(K::NAME, &answer)?);
        let place = self.session(name.place()).place.clone();
        Ok(Reference::new(place, life, id, Rights::USE | Rights::SHARE))
    }

    /// A place's resources whose names match, in the order of their names. Of what changes meanwhile some may be
    /// missing: a page is asked for behind another, as each has to fit into a message.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`], [`Error::Unanswered`], [`Error::Refused`].
    pub async fn ls(&self, place: &str, pattern: &str) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        loop {
            let (pattern, after) = (pattern.to_owned(), wire::behind(&all));
            let (_, answer) =
                self.ask_with_life(place, 0, Operation::List { pattern, after }).await?;
            let page: Page = decode("a listing", &answer)?;
            if !wire::extend(&mut all, page, place)? {
                return Ok(all);
            }
        }
    }

    /// A place's kinds and program parts.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotSent`], [`Error::Unanswered`], [`Error::Refused`].
    pub async fn offers(&self, place: &str) -> Result<Vec<Offer>> {
        let (_, answer) = self.ask_with_life(place, 0, Operation::Offers).await?;
        decode("a list of program parts", &answer)
    }

    /// Checks that a place has a part, of its version, and lets it be called, in the life that a reference is of.
    pub(crate) async fn check<P: Part>(&self, on: &Reference<P::Kind>) -> Result<()> {
        on.require(Rights::USE)?;
        let (life, answer) = self.ask_with_life(on.place(), 0, Operation::Offers).await?;
        let offers: Vec<Offer> = decode("a list of program parts", &answer)?;
        let (kind, place) = (<P::Kind as Kind>::NAME, || on.place().to_owned());
        let refused = |why, text: String| Err(Error::Refused { place: place(), why, text });
        if life != on.life() {
            return refused(Why::Stale, format!("{on:?} is of another life of this place"));
        }
        let found = offers
            .iter()
            .find(|offer| offer.kind == kind && offer.part.as_deref() == Some(P::NAME));
        match found {
            None => {
                refused(Why::NoPart, format!("kind {kind} has no program part {} there", P::NAME))
            }
            Some(offer) if !offer.allowed => {
                refused(Why::NotAllowed, format!("{kind}.{} is not in its allow-list", P::NAME))
            }
            Some(offer) if offer.version != P::VERSION => {
                let (there, here) = (offer.version, P::VERSION);
                let text = format!("{kind}.{} is of version {there} there, {here} here", P::NAME);
                refused(Why::OtherVersion, text)
            }
            Some(_) => Ok(()),
        }
    }

    /// Asks a place for one operation: for who knows kinds and parts only by their names.
    ///
    /// # Errors
    /// As [`call`](Self::call); [`Error::Value`] of a batch, which has more than one answer: that is
    /// [`each`](Self::each).
    pub async fn ask(&self, place: &str, operation: Operation) -> Result<Bytes> {
        if matches!(operation, Operation::Each { .. }) {
            let (what, why) =
                ("asking for a batch as one operation", "it has an answer for each call");
            return Err(Error::Value { what: what.to_owned(), why: why.to_owned() });
        }
        self.ask_with_life(place, 0, operation).await.map(|(_, answer)| answer)
    }

    /// Number of the life of a place.
    pub(crate) async fn life(&self, place: &str) -> Result<u64> {
        Ok(self.ask_with_life(place, 0, Operation::Offers).await?.0)
    }

    pub(crate) async fn ask_with_life(
        &self,
        place: &str,
        life: u64,
        operation: Operation,
    ) -> Result<(u64, Bytes)> {
        let mut answers = self.ask_all(place, life, vec![operation]).await;
        answers.pop().expect("one answer an operation")
    }

    /// Asks one place for these, in requests that fit into messages.
    pub(crate) async fn ask_all(
        &self,
        place: &str,
        life: u64,
        operations: Vec<Operation>,
    ) -> Vec<Result<(u64, Bytes)>> {
        let session = self.session(place);
        let deadline = self.deadline();
        let mut answers = Vec::with_capacity(operations.len());
        for chunk in self.chunks(operations) {
            let count = chunk.len();
            match self.inner.once(&session, life, chunk, deadline).await {
                Ok((life, outcomes)) => {
                    let one = |outcome| of_outcome(place, outcome).map(|bytes| (life, bytes));
                    answers.extend(outcomes.into_iter().flatten().map(one));
                }
                Err(failure) => answers.extend((0..count).map(|_| Err(failure.error(place)))),
            }
        }
        answers
    }

    /// Time at which its patience is over; a patience of ages is one of thirty years.
    pub(crate) fn deadline(&self) -> tokio::time::Instant {
        const AGES: Duration = Duration::from_secs(30 * 365 * 86_400);
        tokio::time::Instant::now() + self.patience.min(AGES)
    }

    /// Operations by messages that have room for them.
    fn chunks(&self, operations: Vec<Operation>) -> Vec<Vec<Operation>> {
        if operations.len() == 1 {
            return vec![operations];
        }
        let most = self.inner.limit() / 2;
        let mut chunks: Vec<Vec<Operation>> = Vec::new();
        let mut room = 0_usize;
        for operation in operations {
            let bytes = 64
                + match &operation {
                    Operation::Call { input, .. } => input.len(),
                    Operation::Create { spec, .. } => spec.len(),
                    Operation::Chain { steps, input } => 128 * steps.len() + input.len(),
                    _ => 256,
                };
            match chunks.last_mut() {
                Some(chunk) if chunk.len() < wire::MOST_OPERATIONS && room >= bytes => {
                    chunk.push(operation);
                }
                _ => {
                    chunks.push(vec![operation]);
                    room = most;
                }
            }
            room = room.saturating_sub(bytes);
        }
        chunks
    }
}

/// A name for what this process makes elsewhere, `HOST-PID-NUMBER`: another one each time.
pub fn caller_name() -> String {
    let (host, process) = (crate::host_name(), std::process::id());
    match secret::number("a name") {
        Ok(number) => format!("{host}-{process}-{:08x}", number >> 32),
        // It is for who looks; what is to be unique is refused where it is not.
        Err(_) => format!("{host}-{process}"),
    }
}

impl Inner {
    /// The connection to a NATS server, for what is done with one alone.
    pub(crate) fn nats(&self, what: &'static str) -> Result<&async_nats::Client> {
        match &self.way {
            Way::Nats { nats, .. } => Ok(nats),
            Way::Here => {
                let why = "this client is of this machine's places, without a NATS server";
                Err(Error::Nats { what, why: why.to_owned() })
            }
        }
    }

    /// Bytes of a message, at most.
    pub(crate) fn limit(&self) -> usize {
        match &self.way {
            Way::Nats { nats, .. } => nats.server_info().max_payload,
            Way::Here => LIMIT,
        }
    }
}

pub(crate) fn call<P: Part>(id: u64, input: &P::In) -> Result<Operation> {
    Ok(Operation::Call {
        id,
        kind: <P::Kind as Kind>::NAME.to_owned(),
        part: P::NAME.to_owned(),
        version: P::VERSION,
        input: written(P::NAME, input)?,
    })
}

pub(crate) fn of_outcome(place: &str, outcome: Outcome) -> Result<Bytes> {
    outcome.map_err(|refusal| match Why::from(refusal.why) {
        Why::Died | Why::Forgotten => Error::Unknown { place: place.to_owned(), why: refusal.text },
        why => Error::Refused { place: place.to_owned(), why, text: refusal.text },
    })
}

pub(crate) fn written<T: Serialize>(what: &str, value: &T) -> Result<Bytes> {
    wire::named(value).map_err(|error| Error::Value {
        what: format!("what {what} is to take cannot be written as MessagePack"),
        why: error.to_string(),
    })
}

pub(crate) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    wire::read(bytes).map_err(|error| Error::undecodable(what, &error))
}

/// Keeps leases that are not used, and looks for connections of one's own, as long as there is a client.
async fn renew(inner: Weak<Inner>, greeted: Arc<Notify>) {
    loop {
        let _ = tokio::time::timeout(RENEW, greeted.notified()).await;
        let Some(inner) = inner.upgrade() else { return };
        let sessions: Vec<_> = {
            let sessions = inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.values().cloned().collect()
        };
        for session in sessions {
            if let Some(lease) = session.lease() {
                inner.seek(&session, lease);
                let third = Duration::from_millis(lease.granted.holds_ms / 3);
                if session.idle(third).is_some() {
                    inner.renew(&session, lease).await;
                }
            }
        }
    }
}
