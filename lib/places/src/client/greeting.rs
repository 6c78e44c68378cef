//! A client's lease at a place: asked for, asked about, kept.

use tokio::time::{Instant, timeout_at};

use crate::client::Inner;
use crate::client::sending::{Failure, MOST_PATIENCE, PATIENCE, Present, RETURN, Tried, is};
use crate::lease::{Held, Session};
use crate::wire::secret;
use crate::wire::{self, Granted, Operation, Reply, Why};

impl Inner {
    /// The lease at this life of a place, or with 0 at whichever there is, asked for if there is none; one whose place
    /// was silent is asked about first.
    pub(crate) async fn lease(
        &self,
        session: &Session,
        life: u64,
        deadline: Instant,
    ) -> Result<Held, Failure> {
        let one = timeout_at(deadline, session.greeting.lock()).await;
        let _one = one.map_err(|_| late())?;
        match session.lease_at(life) {
            Some(lease) if !session.is_doubted() => Ok(lease),
            _ => {
                let greets = self.greet(session, life, deadline);
                let held = self.unless_absent(session, greets).await?;
                self.greeted.notify_one();
                Ok(held)
            }
        }
    }

    /// Asks whether the lease holds, or for one. Nothing of that has an effect.
    async fn greet(
        &self,
        session: &Session,
        life: u64,
        deadline: Instant,
    ) -> Result<Held, Failure> {
        let key = secret::number("a lease's secret");
        let key = key.map_err(|error| Failure::NotSent(error.to_string()))?;
        let hello = [(0, Operation::Hello { key, client: self.name.clone() })];
        let (mut patience, mut asked) = (PATIENCE, life);
        loop {
            self.wait_for_link(false, deadline).await?;
            let until = deadline.min(Instant::now() + patience);
            let held = session.lease_at(life);
            let operations = if held.is_some() { &[][..] } else { &hello };
            // A lease is one life's. Which there is tells a question that changes nothing.
            if held.is_none() && asked == 0 && !self.is_here() {
                match self.present(session, until).await? {
                    Present::Life(life) => asked = life,
                    Present::Nobody => return Err(Failure::Gone),
                    Present::Silent if Instant::now() >= deadline => return Err(late()),
                    Present::Silent => {
                        patience = MOST_PATIENCE.min(patience * 2);
                        continue;
                    }
                }
            }
            let meant = held.map_or(asked, |held| held.granted.life);
            let bytes = self.message(session, held, meant, operations)?;
            let sent = self.send(session, meant, bytes, until).await;
            match sent.map_err(Failure::of_question)? {
                Tried::Nobody if self.is_here() => return Err(Failure::Gone),
                Tried::Nobody => {
                    if let Some(held) = held {
                        session.forget(held);
                    }
                    self.another(session, meant, life, deadline).await?;
                    asked = life;
                }
                Tried::Answered(reply) => {
                    let Some(held) = held else { return granted(session, reply, key) };
                    let ended = reply
                        .answers
                        .iter()
                        .any(|one| is(one, Why::NoLease) || is(one, Why::OtherLife));
                    if !ended {
                        session.heard();
                        return Ok(held);
                    }
                    session.forget(held);
                }
                Tried::Silent => patience = MOST_PATIENCE.min(patience * 2),
            }
            // A lease that nobody knows of ends by itself.
            if Instant::now() >= deadline {
                return Err(late());
            }
        }
    }

    /// Returns where a request that nobody has heard, as nobody is at life `meant`, may go to another one: where its
    /// caller means none, `wanted` being 0. Not at once where that life answers at the name: it has just come.
    pub(crate) async fn another(
        &self,
        session: &Session,
        meant: u64,
        wanted: u64,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let until = deadline.min(Instant::now() + PATIENCE);
        match self.present(session, until).await? {
            Present::Nobody => Err(Failure::Gone),
            Present::Life(life) if life != meant && wanted != 0 => Err(stale(&session.place)),
            Present::Life(life) if life != meant => Ok(()),
            _ if Instant::now() + RETURN >= deadline => Err(late()),
            _ => {
                tokio::time::sleep(RETURN).await;
                Ok(())
            }
        }
    }

    /// Tells a place that the client lives.
    pub(crate) async fn renew(&self, session: &Session, lease: Held) {
        let Ok(bytes) = self.message(session, Some(lease), lease.granted.life, &[]) else { return };
        let limit = Instant::now() + PATIENCE;
        let Ok(Tried::Answered(reply)) = self.send(session, lease.granted.life, bytes, limit).await
        else {
            return;
        };
        let lost = |outcome| is(outcome, Why::NoLease) || is(outcome, Why::OtherLife);
        if reply.answers.iter().any(lost) {
            session.forget(lease);
        }
    }
}

/// Failure of what was not sent, as the place has not answered before.
fn late() -> Failure {
    Failure::NotSent(
        "it was asked first whether it is there, and has not answered in time".to_owned(),
    )
}

/// Refusal of what is asked of a life that is over.
pub(crate) fn stale(place: &str) -> Failure {
    let text = format!("{place} was started anew since: open its resources anew");
    Failure::Refused(wire::Refusal::new(Why::Stale, text))
}

/// The lease that a place grants.
fn granted(session: &Session, reply: Reply, key: u64) -> Result<Held, Failure> {
    let refused = |text: String| Failure::Refused(wire::Refusal::new(Why::Kind, text));
    let outcome = reply.answers.into_iter().next();
    let bytes =
        outcome.ok_or_else(|| refused("it gives no lease".to_owned()))?.map_err(|refusal| {
            match Why::from(refusal.why) {
                Why::OtherLife => stale(&session.place),
                _ => Failure::Refused(refusal),
            }
        })?;
    let granted: Granted = wire::read(&bytes)
        .map_err(|error| refused(format!("what it gives is no lease: {error}")))?;
    let lease = Held { granted, key };
    session.set_lease(lease);
    Ok(lease)
}
