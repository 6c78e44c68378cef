//! A client's lease at a place: asked for, asked about, kept.

use tokio::time::{Instant, timeout_at};

use crate::client::Inner;
use crate::client::sending::{Failure, MOST_PATIENCE, PATIENCE, Tried, is};
use crate::client::session::{Held, Session};
use crate::wire::secret;
use crate::wire::{self, Granted, Operation, Reply, Why};

impl Inner {
    /// The lease at this place, asked for if there is none; one whose place was silent is asked about first.
    pub(crate) async fn lease(
        &self,
        session: &Session,
        deadline: Instant,
    ) -> Result<Held, Failure> {
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
