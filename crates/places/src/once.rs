//! A request that runs once, or of which it is said that nobody knows.
//!
//! ```text
//!            no connection, none until the deadline ──────────────▶ NotSent
//!           ╱
//! serials ─▶ sent ── answer ─────────────────────────────────────▶ the answer
//!            │ ╲──── no responders, sent once ───────────────────▶ Gone
//!            │
//!            ├─ connection lost and made anew ─╮
//!            ├─ no answer for a while ─────────┤
//!            ◀──── sent again, same serials ───╯
//!            │
//!            ├─ sent again, and the place has another life,
//!            │  or knows the lease no more ──────────────────────▶ Unknown
//!            ╰─ deadline ────────────────────────────────────────▶ Unknown
//! ```
//!
//! Why it never runs twice: a place runs an operation only under a lease that it has, and keeps
//! its answer there ([`Lease`](crate::Lease)) until the client says by `first` that it has seen
//! it, or the lease ends. A request that is sent again carries the same lease and serials, so
//! that either the answer is still kept, or the lease is gone and the place refuses. A lease is
//! a resource's id, which is never used again, of one life of the place.
//!
//! Why `Gone`, `NotSent` and a refusal are certain: what was sent once and found no responder,
//! or was refused, has run nowhere, and no copy of it is under way; what was never given to the
//! connection cannot leave later.

use std::sync::Arc;
use std::time::Duration;

use async_nats::RequestErrorKind;
use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::absent::absent;
use crate::batch::{self, Known};
use crate::client::{Inner, Way};
use crate::denied::Doing;
use crate::error::Error;
use crate::nats::refused;
use crate::near::Sent;
use crate::secret;
use crate::session::{Held, Session};
use crate::wire::{self, Asked, Granted, Operation, Outcome, Reply, Why};

/// For how long an answer is waited for before the request is sent again, at first.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest such wait.
const MOST_PATIENCE: Duration = Duration::from_secs(8);
/// Before a request that was sent, and finds nobody now, is sent again: the place's own
/// connection may be about to be made anew.
const RETURN: Duration = Duration::from_millis(100);

/// Why a request has no answers.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Gone,
    NotSent(String),
    Unknown(String),
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    /// The place's refusal of all of it.
    Refused(wire::Refusal),
}

impl Failure {
    pub(crate) fn error(&self, place: &str) -> Error {
        let place = place.to_owned();
        match self.clone() {
            Failure::Gone => Error::Gone { place },
            Failure::NotSent(why) => Error::NotSent { place, why },
            Failure::Unknown(why) => Error::Unknown { place, why },
            Failure::TooLarge { bytes, limit } => Error::TooLarge { place, bytes, limit },
            Failure::Refused(refusal) => {
                Error::Refused { place, why: Why::from(refusal.why), text: refusal.text }
            }
        }
    }
}

impl Failure {
    /// That of what has no effect: nothing was done, whether or not it has arrived.
    fn of_look(self) -> Failure {
        match self {
            Failure::Unknown(why) => Failure::NotSent(why),
            other => other,
        }
    }
}

/// One try to have a message answered.
enum Tried {
    Answered(Reply),
    /// Nobody is there.
    Nobody,
    /// No answer; there may be one yet.
    Silent,
}

impl Inner {
    /// Has a place run these operations, and gives the number of its life and an answer by each of their
    /// serials; a batch's own has the words, and its calls have what is none.
    pub(crate) async fn once(
        &self,
        session: &Arc<Session>,
        life: u64,
        operations: Vec<Operation>,
        deadline: Instant,
    ) -> Result<(u64, Vec<Option<Outcome>>), Failure> {
        let serials = operations.iter().map(Operation::serials).sum();
        let mut answers: Vec<Option<Outcome>> = vec![None; serials];
        let has_effect = operations.iter().any(Operation::has_effect);
        let attempts = self.attempts(session, life, operations, &mut answers, deadline);
        let outcome = match has_effect {
            true => attempts.await,
            false => self.unless_absent(session, attempts).await.map_err(Failure::of_look),
        };
        match outcome {
            Ok(life) => Ok((life, answers)),
            Err(failure) if answers.iter().all(Option::is_none) => Err(failure),
            // Some have come: of the others no more is known.
            Err(failure) => {
                let text = failure.error(&session.place).to_string();
                let rest = || Err(wire::Refusal::new(Why::Died, text.clone()));
                let all = answers.into_iter().map(|answer| answer.or_else(|| Some(rest())));
                Ok((life, all.collect()))
            }
        }
    }

    /// Asks until all answers are there, and gives the number of the place's life.
    async fn attempts(
        &self,
        session: &Arc<Session>,
        life: u64,
        operations: Vec<Operation>,
        answers: &mut [Option<Outcome>],
        deadline: Instant,
    ) -> Result<u64, Failure> {
        let leased = operations.iter().any(Operation::has_effect);
        let ticket = session.take(answers.len());
        let first = ticket.serials().start;
        let mut next = first;
        let numbered = operations.into_iter().map(|operation| {
            let serial = next;
            next += operation.serials() as u64;
            (serial, operation)
        });
        let mut left: Vec<(u64, Operation)> = numbered.collect();
        // Whether a copy of it may be under way, or have run.
        let mut sent = false;
        let mut bound: Option<Option<Held>> = None;
        let mut patience = PATIENCE;
        // Operations of one message; fewer where none of their answers has found room in a reply.
        let mut most = usize::MAX;
        loop {
            self.wait_for_link(sent, deadline).await?;
            let count = left.len().min(most);
            let lease = match bound {
                Some(lease) => lease,
                None if leased => Some(self.lease(session, deadline).await?),
                None => None,
            };
            bound = Some(lease);
            let bytes = self.message(session, lease, life, &left[..count])?;
            let limit = self.limit();
            if bytes.len() > limit && count > 1 {
                most = count / 2;
                continue;
            }
            if bytes.len() > limit && sent {
                return Err(unknown("what it has not answered finds no room in a message"));
            }
            if bytes.len() > limit {
                return Err(Failure::TooLarge { bytes: bytes.len(), limit });
            }
            let until = deadline.min(Instant::now() + patience);
            let tried = match self.send(session, bytes, until).await {
                Err(Failure::NotSent(why)) if sent => return Err(Failure::Unknown(why)),
                tried => tried?,
            };
            let again = sent;
            sent |= !matches!(tried, Tried::Nobody);
            match tried {
                Tried::Answered(Reply { life: its, answers: outcomes }) => {
                    session.heard(true);
                    match whole(&outcomes, count) {
                        None => (),
                        Some(refusal) if is_of_lease(refusal.why) => {
                            if let Some(lease) = lease {
                                session.forget(lease);
                            }
                            if again {
                                return Err(Failure::Unknown(refusal.text));
                            }
                            if life != 0 && refusal.why == Why::OtherLife as u16 {
                                let why = Why::Stale as u16;
                                return Err(Failure::Refused(wire::Refusal { why, ..refusal }));
                            }
                            if Instant::now() >= deadline {
                                return Err(Failure::NotSent(refusal.text));
                            }
                            // It has run nowhere: with another lease it is a new one.
                            (bound, sent) = (None, false);
                            continue;
                        }
                        Some(refusal) => return Err(Failure::Refused(refusal)),
                    }
                    if outcomes.len() != count {
                        return Err(unknown("it answers another number of operations"));
                    }
                    let asked: Vec<_> = left.drain(..count).collect();
                    let mut answered = 0;
                    for ((serial, operation), outcome) in asked.into_iter().zip(outcomes) {
                        if is(&outcome, Why::AskAgain) {
                            left.push((serial, operation));
                            continue;
                        }
                        answered += 1;
                        let answers = &mut answers[(serial - first) as usize..];
                        let outcome = match outcome {
                            Ok(given) if operation.calls() > 0 => {
                                let known = batch::read(&operation, &given);
                                let known = known.map_err(Failure::Unknown)?;
                                Ok(spread(known, serial, answers, &mut left))
                            }
                            outcome => outcome,
                        };
                        answers[0] = Some(outcome);
                    }
                    if left.is_empty() {
                        return Ok(its);
                    }
                    if answered == 0 {
                        most = (count / 2).max(1);
                        if Instant::now() >= deadline {
                            return Err(unknown("its answers find no room in a reply"));
                        }
                    }
                    patience = PATIENCE;
                }
                Tried::Nobody if !again => return Err(Failure::Gone),
                Tried::Nobody => {
                    // Where it was at a socket, nobody comes back who knows of it.
                    if self.is_here() || Instant::now() + RETURN > deadline {
                        return Err(unknown("it has gone before it answered"));
                    }
                    tokio::time::sleep(RETURN).await;
                }
                Tried::Silent if Instant::now() >= deadline => {
                    session.heard(false);
                    return Err(unknown("it was sent, and no answer has come in time"));
                }
                Tried::Silent => patience = MOST_PATIENCE.min(patience * 2),
            }
        }
    }

    /// Waits until there is a connection.
    async fn wait_for_link(&self, sent: bool, deadline: Instant) -> Result<(), Failure> {
        // A socket is connected when it is needed.
        let Way::Nats { link, .. } = &self.way else { return Ok(()) };
        let mut link = link.clone();
        let up = timeout_at(deadline, link.wait_for(|link| link.up)).await;
        match up {
            Ok(Ok(_)) => Ok(()),
            _ if sent => Err(unknown("it was sent, and the connection to NATS was lost since")),
            _ => Err(Failure::NotSent("there is no connection to NATS".to_owned())),
        }
    }

    /// The lease at this place, asked for if there is none; one whose place was silent is asked about first.
    async fn lease(&self, session: &Session, deadline: Instant) -> Result<Held, Failure> {
        let one = timeout_at(deadline, session.greeting.lock()).await;
        let _one = one.map_err(|_| Failure::NotSent("it has not answered in time".to_owned()))?;
        match session.lease() {
            Some(lease) if !session.is_doubted() => Ok(lease),
            _ => self.unless_absent(session, self.greet(session, deadline)).await,
        }
    }

    /// Asks whether the lease holds, or for one. Nothing of that has an effect.
    async fn greet(&self, session: &Session, deadline: Instant) -> Result<Held, Failure> {
        let key = secret::number("a lease's secret");
        let key = key.map_err(|error| Failure::NotSent(error.to_string()))?;
        let hello = [(0, Operation::Hello { key, client: self.name.clone() })];
        let mut patience = PATIENCE;
        loop {
            self.wait_for_link(false, deadline).await?;
            let held = session.lease();
            let operations = if held.is_some() { &[][..] } else { &hello };
            let life = held.map_or(0, |held| held.granted.life);
            let bytes = self.message(session, held, life, operations)?;
            let sent = self.send(session, bytes, deadline.min(Instant::now() + patience)).await;
            match sent.map_err(Failure::of_look)? {
                Tried::Nobody => return Err(Failure::Gone),
                Tried::Answered(reply) => {
                    let Some(held) = held else { return granted(session, reply, key) };
                    let ended = reply
                        .answers
                        .iter()
                        .any(|one| is(one, Why::NoLease) || is(one, Why::OtherLife));
                    if !ended {
                        session.heard(true);
                        return Ok(held);
                    }
                    session.forget(held);
                }
                Tried::Silent => patience = MOST_PATIENCE.min(patience * 2),
            }
            // A lease that nobody knows of ends by itself.
            if Instant::now() >= deadline {
                return Err(Failure::NotSent("it has not answered in time".to_owned()));
            }
        }
    }

    /// Tells a place that the client lives.
    pub(crate) async fn renew(&self, session: &Session, lease: Held) {
        let Ok(bytes) = self.message(session, Some(lease), lease.granted.life, &[]) else { return };
        if let Ok(Tried::Answered(reply)) =
            self.send(session, bytes, Instant::now() + PATIENCE).await
            && reply
                .answers
                .iter()
                .any(|outcome| is(outcome, Why::NoLease) || is(outcome, Why::OtherLife))
        {
            session.forget(lease);
        }
    }

    fn message(
        &self,
        session: &Session,
        lease: Option<Held>,
        life: u64,
        operations: &[(u64, Operation)],
    ) -> Result<Bytes, Failure> {
        let request = Asked {
            // What a lease is of tells itself which life is meant.
            life: lease.map_or(life, |lease| if life == 0 { lease.granted.life } else { life }),
            lease: lease.map_or(0, |lease| lease.granted.lease),
            key: lease.map_or(0, |lease| lease.key),
            first: session.first_open(),
            operations,
        };
        wire::message(&request).map_err(|error| {
            Failure::NotSent(format!("it cannot be written as MessagePack: {error}"))
        })
    }

    /// Sends a message, and waits for its answer until `until`, or the connection is lost.
    async fn send(
        &self,
        session: &Session,
        bytes: Bytes,
        until: Instant,
    ) -> Result<Tried, Failure> {
        let Way::Nats { nats, link } = &self.way else {
            return self.send_here(session, &bytes, until).await;
        };
        let (mut link, mut denials) = (link.clone(), link.clone());
        let (made, since) = {
            let link = link.borrow_and_update();
            if let Some(why) = link.deaf() {
                return Err(Failure::NotSent(why));
            }
            (link.made, link.denied.count())
        };
        let request = async_nats::Request::new().payload(bytes).timeout(None);
        let answer = nats.send_request(session.subject.to_string(), request);
        let denied = [(Doing::Publish, &*session.subject)];
        tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(message) => match wire::parse::<Reply>(&message.payload) {
                    Ok(reply) => Ok(Tried::Answered(reply)),
                    Err(why) => Err(Failure::Unknown(why)),
                },
                Err(error) => match error.kind() {
                    RequestErrorKind::NoResponders => Ok(Tried::Nobody),
                    RequestErrorKind::InvalidSubject => {
                        Err(Failure::NotSent("its name cannot be a subject".to_owned()))
                    }
                    _ => Ok(Tried::Silent),
                },
            },
            // Made anew, not just lost: until then nothing can be asked.
            _ = link.wait_for(|link| link.up && link.made != made) => Ok(Tried::Silent),
            // What is denied went nowhere; where answers are, it was delivered and is answered in vain.
            why = refused(&mut denials, since, &denied) => match denials.borrow().deaf() {
                Some(_) => Err(Failure::Unknown(why)),
                None => Err(Failure::NotSent(why)),
            },
            () = sleep_until(until) => Ok(Tried::Silent),
        }
    }

    /// Does what has no effect, unless it is plain that nobody is there.
    async fn unless_absent<T>(
        &self,
        session: &Session,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Way::Nats { nats, link } = &self.way else { return work.await };
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = absent(nats, link, &session.place, PATIENCE) => Err(Failure::Gone),
        }
    }
}

/// The lease that a place grants.
fn granted(session: &Session, reply: Reply, key: u64) -> Result<Held, Failure> {
    let refused = |text: String| Failure::Refused(wire::Refusal::new(Why::Kind, text));
    let outcome = reply.answers.into_iter().next();
    let bytes = outcome
        .ok_or_else(|| refused("it gives no lease".to_owned()))?
        .map_err(Failure::Refused)?;
    let granted: Granted = wire::read(&bytes)
        .map_err(|error| refused(format!("what it gives is no lease: {error}")))?;
    let lease = Held { granted, key };
    session.set_lease(lease);
    Ok(lease)
}

impl Inner {
    fn is_here(&self) -> bool {
        matches!(self.way, Way::Here)
    }

    /// Sends a message to a place's socket, and waits for its answer until `until`, or the place has gone.
    async fn send_here(
        &self,
        session: &Session,
        bytes: &[u8],
        until: Instant,
    ) -> Result<Tried, Failure> {
        let connection = session.near().await;
        let connection = connection.map_err(|error| Failure::NotSent(error.to_string()))?;
        let Some(near) = connection else { return Ok(Tried::Nobody) };
        match timeout_at(until, near.ask(bytes)).await {
            Ok(Sent::Answered(message)) => match wire::parse::<Reply>(&message) {
                Ok(reply) => Ok(Tried::Answered(reply)),
                Err(why) => Err(Failure::Unknown(why)),
            },
            // It has gone: a new connection tells whether another one is there.
            Ok(Sent::Not) if session.near().await.is_ok_and(|near| near.is_none()) => {
                Ok(Tried::Nobody)
            }
            Ok(Sent::Not | Sent::Lost) | Err(_) => Ok(Tried::Silent),
        }
    }
}

/// Puts what a batch's calls have given where it belongs, from the batch's own answer on, and asks for what is
/// still at the place with what is left. Gives the words.
fn spread(
    known: Known,
    serial: u64,
    answers: &mut [Option<Outcome>],
    left: &mut Vec<(u64, Operation)>,
) -> Bytes {
    for (number, outcome) in known.others {
        answers[1 + number as usize] = Some(outcome);
    }
    left.extend(
        known.kept.into_iter().map(|(number, call)| (serial + 1 + u64::from(number), call)),
    );
    known.words
}

/// A place's refusal of a request as a whole.
fn whole(outcomes: &[Outcome], count: usize) -> Option<wire::Refusal> {
    match outcomes {
        [Err(refusal)] if count != 1 => Some(refusal.clone()),
        [Err(refusal), ..] if is_of_lease(refusal.why) => Some(refusal.clone()),
        _ => None,
    }
}

/// Whether the place knows the client's lease, or the client the place's life, no more.
fn is_of_lease(why: u16) -> bool {
    why == Why::OtherLife as u16 || why == Why::NoLease as u16
}

fn is(outcome: &Outcome, why: Why) -> bool {
    outcome.as_ref().is_err_and(|refusal| refusal.why == why as u16)
}

fn unknown(why: &str) -> Failure {
    Failure::Unknown(why.to_owned())
}
