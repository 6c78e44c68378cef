//! One try to have a message answered: by NATS, or at a socket.

use std::time::Duration;

use async_nats::RequestErrorKind;
use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::client::{Inner, Way};
use crate::error::Error;
use crate::lease::{Held, Session};
use crate::transport::absent::absent;
use crate::transport::denied::Doing;
use crate::transport::nats::refused;
use crate::transport::near::Sent;
use crate::wire::{self, Asked, Operation, Outcome, Reply, Why};

/// Time for which an answer is waited for before the request is sent again, at first.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Longest such wait.
pub(crate) const MOST_PATIENCE: Duration = Duration::from_secs(8);

/// Pause before a request that was sent, and finds nobody now, is sent again: the place's own
/// connection may be about to be made anew.
pub(crate) const RETURN: Duration = Duration::from_millis(100);

/// Reason for which a request has no answers.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Gone,
    NotSent(String),
    /// No answer to what changes nothing.
    Unanswered(String),
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
            Failure::Unanswered(why) => Error::Unanswered { place, why },
            Failure::Unknown(why) => Error::Unknown { place, why },
            Failure::TooLarge { bytes, limit } => Error::TooLarge { place, bytes, limit },
            Failure::Refused(refusal) => {
                Error::Refused { place, why: Why::from(refusal.why), text: refusal.text }
            }
        }
    }
}

impl Failure {
    /// The reason alone, for a sentence that says itself what it means for what was asked.
    pub(crate) fn why(&self, place: &str) -> String {
        match self {
            Failure::NotSent(why) | Failure::Unanswered(why) | Failure::Unknown(why) => why.clone(),
            Failure::Refused(refusal) => refusal.text.clone(),
            Failure::Gone => "nobody answers there any more".to_owned(),
            Failure::TooLarge { .. } => self.error(place).to_string(),
        }
    }

    /// Failure of a request without effect: nothing was done, whether or not it has arrived.
    pub(crate) fn of_look(self) -> Failure {
        match self {
            Failure::Unknown(why) => Failure::Unanswered(why),
            other => other,
        }
    }

    /// Failure of a request that is behind this one: it was not sent, though this question was.
    pub(crate) fn of_question(self) -> Failure {
        match self {
            Failure::Unknown(why) => {
                Failure::NotSent(format!("it was asked first whether it is there: {why}"))
            }
            other => other,
        }
    }
}

/// Life of a place that answers at its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    Life(u64),
    Nobody,
    /// No answer has come in time.
    Silent,
}

/// One try to have a message answered.
pub(crate) enum Tried {
    Answered(Reply),
    /// Nobody is there.
    Nobody,
    /// No answer; there may be one yet.
    Silent,
}
impl Inner {
    /// Waits until there is a connection.
    pub(crate) async fn wait_for_link(&self, sent: bool, deadline: Instant) -> Result<(), Failure> {
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
    /// A request as it leaves.
    pub(crate) fn message(
        &self,
        session: &Session,
        lease: Option<Held>,
        life: u64,
        operations: &[(u64, Operation)],
    ) -> Result<Bytes, Failure> {
        let (first, open) = session.unseen();
        let request = Asked {
            life: meant(life, lease),
            lease: lease.map_or(0, |lease| lease.granted.lease),
            key: lease.map_or(0, |lease| lease.key),
            first,
            open,
            operations,
        };
        wire::message(&request).map_err(|error| {
            Failure::NotSent(format!("it cannot be written as MessagePack: {error}"))
        })
    }

    /// Sends a message to a life of a place, or to whichever there is with 0, and waits for its answer until `until`,
    /// or the connection is lost.
    pub(crate) async fn send(
        &self,
        session: &Session,
        life: u64,
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
        let subject = session.subject(life);
        if !is_subject(&subject) {
            return Err(Failure::NotSent("its name cannot be a subject".to_owned()));
        }
        let answer = nats.send_request(subject.clone(), request);
        let denied = [(Doing::Publish, &*subject)];
        tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(message) => match wire::parse::<Reply>(&message.payload) {
                    Ok(reply) => Ok(Tried::Answered(reply)),
                    Err(why) => Err(Failure::Unknown(why)),
                },
                Err(error) => match error.kind() {
                    RequestErrorKind::NoResponders => Ok(Tried::Nobody),
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

    /// Asks which life of a place there is: whichever answers first, where there are two.
    pub(crate) async fn present(
        &self,
        session: &Session,
        until: Instant,
    ) -> Result<Present, Failure> {
        let bytes = self.message(session, None, 0, &[(0, Operation::Age)])?;
        let tried = self.send(session, 0, bytes, until).await.map_err(Failure::of_question)?;
        Ok(match tried {
            Tried::Answered(reply) => Present::Life(reply.life),
            Tried::Nobody => Present::Nobody,
            Tried::Silent => Present::Silent,
        })
    }

    /// Does what has no effect, unless it is plain that nobody is there.
    pub(crate) async fn unless_absent<T>(
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
impl Inner {
    pub(crate) fn is_here(&self) -> bool {
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
/// The life that a request is for, 0 of whichever: what a lease is of tells itself which is meant.
pub(crate) fn meant(life: u64, lease: Option<Held>) -> u64 {
    lease.map_or(life, |lease| lease.granted.life)
}

/// True if the place knows the client's lease, or the client the place's life, no more.
pub(crate) fn is_of_lease(why: u16) -> bool {
    why == Why::OtherLife as u16 || why == Why::NoLease as u16
}

/// True if the outcome is this refusal.
pub(crate) fn is(outcome: &Outcome, why: Why) -> bool {
    outcome.as_ref().is_err_and(|refusal| refusal.why == why as u16)
}

/// The failure of something that was sent, and of which no more is known.
pub(crate) fn unknown(why: &str) -> Failure {
    Failure::Unknown(why.to_owned())
}

/// Returns true if NATS takes this as the subject of a message: words with dots between them.
fn is_subject(subject: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
    subject.split('.').all(is_word)
}

#[cfg(test)]
mod subjects {
    use super::is_subject;

    #[test]
    fn words_with_dots_between_them() {
        assert!(is_subject("kumiki.place.web.7") && is_subject("a"));
        for bad in ["", ".a", "a.", "a..b", "a b.c", "a.\tb", "a\r\n"] {
            assert!(!is_subject(bad), "{bad:?}");
        }
    }
}
