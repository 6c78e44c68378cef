//! A request that runs once, or of which it is said that nobody knows.
//!
//! ```text
//!            no connection, none until the deadline ──────────────▶ NotSent
//!           ╱
//! serials ─▶ sent ── answer ─────────────────────────────────────▶ the answer
//!            │ ╲──── no responders, sent once ───────────────────▶ Gone, or sent to the
//!            │                                                     life that has come
//!            │
//!            ├─ connection lost and made anew ─╮
//!            ├─ no answer for a while ─────────┤
//!            ◀──── sent again, same serials ───╯
//!            │
//!            ├─ sent again, and the place has another life,
//!            │  or knows the lease no more ──────────────────────▶ Unknown
//!            ├─ silent for a while, and another life answers
//!            │  at the name ─────────────────────────────────────▶ Unknown
//!            ╰─ deadline ────────────────────────────────────────▶ Unknown
//! ```
//! A durable place that is served again has the same life, leases and answers: what is sent again finds them.
//!
//! Why it never runs twice: a place runs an operation only under a lease that it has, and keeps
//! its answer there ([`Lease`](crate::Lease)) until the client says by `first` that it has seen
//! it, or the lease ends. A request that is sent again carries the same lease and serials, so
//! that either the answer is still kept, or the lease is gone and the place refuses. A lease is
//! a resource's id, which is never used again, of one life of the place. A request goes to the
//! subject of that life, which no other one hears, also where two have the name for a while.
//!
//! Why `Gone`, `NotSent` and a refusal are certain: what was sent once and found no responder,
//! or was refused, has run nowhere, and no copy of it is under way; what was never given to the
//! connection cannot leave later.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::client::Inner;
use crate::client::direct::send_direct;
use crate::client::greeting::stale;
use crate::client::sending::{
    Failure, MOST_PATIENCE, PATIENCE, Present, RETURN, Tried, is, is_of_lease, meant, unknown,
};
use crate::lease::{Held, Session};
use crate::wire::batch::{self, Known};
use crate::wire::{self, Operation, Outcome, Reply, Why};

/// Time for which a durable place that nobody answers for is being handed over, perhaps.
const HANDED_OVER: Duration = Duration::from_secs(1);
/// Shortest and longest pause before it is asked again, and the share of the time for which nobody was there: it is to
/// be found soon after it is there, and not to be sought by all callers without rest.
const SOON: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));
const SHARE: u32 = 8;

/// Pause before a place is asked again of which nobody was there, or which had no room for it, since then.
fn soon(since: Instant) -> Duration {
    (since.elapsed() / SHARE).clamp(SOON.0, SOON.1)
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
        let operations_end = operations.iter().any(Operation::ends_place);
        // What ends the place answers once: whoever asked again in between would not hear it.
        let patience = match operations_end {
            true => deadline.saturating_duration_since(Instant::now()) / 2,
            false => PATIENCE,
        };
        let attempts = self.attempts(session, life, operations, &mut answers, (patience, deadline));
        let outcome = match has_effect {
            true => attempts.await,
            // That a place is not there must not be guessed of one that may have been ended by this.
            false if operations_end => attempts.await,
            false => self.unless_absent(session, attempts).await.map_err(Failure::of_look),
        };
        match outcome {
            Ok(life) => Ok((life, answers)),
            Err(failure) if answers.iter().all(Option::is_none) => Err(failure),
            // Some have come: of the others no more is known.
            Err(failure) => {
                let why = failure.why(&session.place);
                let rest = || Err(wire::Refusal::new(Why::Died, why.clone()));
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
        (mut patience, deadline): (Duration, Instant),
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
        let mut nobody: Option<Instant> = None;
        let mut waits_for_room: Option<Instant> = None;
        // Operations of one message; fewer where none of their answers has found room in a reply.
        let mut most = usize::MAX;
        // By the own connection, if there is one. What has no answer there is asked again by NATS, which knows who is dead.
        let mut by_direct = leased;
        loop {
            if !by_direct || session.direct.at(0).is_none() {
                self.wait_for_link(sent, deadline).await?;
            }
            let count = left.len().min(most);
            let lease = match bound {
                Some(lease) => lease,
                None if leased => Some(self.lease(session, life, deadline).await?),
                None => None,
            };
            bound = Some(lease);
            let bytes = self.message(session, lease, life, &left[..count])?;
            let to = meant(life, lease);
            let near = by_direct.then(|| session.direct.at(to)).flatten();
            let near = near.filter(|near| bytes.len() <= near.most());
            let limit = near.as_ref().map_or_else(|| self.limit(), |near| near.most());
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
            let tried = match near {
                Some(near) => send_direct(&near, &bytes, until).await,
                None => self.send(session, to, bytes, until).await,
            };
            by_direct = leased && !matches!(tried, Ok(Tried::Silent));
            let tried = match tried {
                Err(Failure::NotSent(why)) if sent => return Err(Failure::Unknown(why)),
                tried => tried?,
            };
            let again = sent;
            kumiki_sys::event!(place = %session.place, first, count, again, "sent");
            sent |= !matches!(tried, Tried::Nobody);
            match tried {
                Tried::Answered(Reply { life: its, answers: outcomes }) => {
                    session.heard();
                    nobody = None;
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
                                return Err(stale(&session.place));
                            }
                            if Instant::now() >= deadline {
                                return Err(Failure::Refused(refusal));
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
                            return Err(unknown(
                                "it was asked for again and again, without an answer",
                            ));
                        }
                        // One alone has room in a reply: its place makes room for it first.
                        if count == 1 {
                            let room = *waits_for_room.get_or_insert_with(Instant::now);
                            tokio::time::sleep(soon(room)).await;
                        }
                    } else {
                        waits_for_room = None;
                    }
                    patience = PATIENCE;
                }
                Tried::Nobody
                    if !again
                        && lease.is_some_and(|its| its.granted.durable)
                        && nobody.get_or_insert_with(Instant::now).elapsed() < HANDED_OVER
                        && Instant::now() + SOON.1 < deadline =>
                {
                    tokio::time::sleep(soon(nobody.unwrap_or_else(Instant::now))).await;
                }
                Tried::Nobody if !again && (to == 0 || self.is_here()) => {
                    return Err(Failure::Gone);
                }
                Tried::Nobody if !again => {
                    if let Some(lease) = lease {
                        session.forget(lease);
                    }
                    self.another(session, to, life, deadline).await?;
                    bound = None;
                }
                Tried::Nobody => {
                    // Where it was at a socket, nobody comes back who knows of it, if it is not durable.
                    let comes_back =
                        !self.is_here() || lease.is_some_and(|its| its.granted.durable);
                    if !comes_back || Instant::now() + RETURN > deadline {
                        return Err(unknown("it has gone before it answered"));
                    }
                    self.unless_another(session, to).await?;
                    let durable = lease.is_some_and(|its| its.granted.durable);
                    let since = *nobody.get_or_insert_with(Instant::now);
                    tokio::time::sleep(if durable { soon(since) } else { RETURN }).await;
                }
                Tried::Silent if Instant::now() >= deadline => {
                    session.doubts();
                    return Err(unknown("it was sent, and no answer has come in time"));
                }
                Tried::Silent => {
                    self.unless_another(session, to).await?;
                    patience = MOST_PATIENCE.min(patience * 2);
                }
            }
        }
    }

    /// Fails what was sent to a life of a place if another one answers at the name: that one has ended, or is about to,
    /// or is beyond a line that is cut.
    async fn unless_another(&self, session: &Session, to: u64) -> Result<(), Failure> {
        if to == 0 || self.is_here() {
            return Ok(());
        }
        match self.present(session, Instant::now() + RETURN).await {
            Ok(Present::Life(life)) if life != to => {
                Err(unknown("it was sent, and another process has its place's name since"))
            }
            _ => Ok(()),
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
