//! A client's own connection to a place of another machine, beside its NATS server.
//!
//! It is asked for by NATS as soon as the client has a lease, made by a task of its own while calls go by NATS, and asked for again
//! before it would end: who may not ask by NATS any more has it no longer. A request goes by it once. What has no
//! answer is asked again by NATS, under the same lease and serials, so that it runs once, whichever way it came.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::client::Inner;
use crate::client::sending::{Failure, PATIENCE, Tried, is_of_lease};
use crate::lease::{Held, Session};
use crate::transport::direct::{ADMISSION, dial};
use crate::transport::near::{Near, Sent};
use crate::wire::{self, DirectOffer, Operation, Reply, Why};

/// Shortest and longest pause before another try.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// Reason for which there is no connection.
enum Without {
    /// The place does not listen, or knows of nothing of this kind.
    None,
    /// Perhaps later.
    Now(String),
}

impl Inner {
    /// Looks for a connection to a place under a lease, if nobody does.
    pub(crate) fn seek(self: &Arc<Self>, session: &Arc<Session>, lease: Held) {
        if !self.is_here() && session.direct.begins(lease) {
            tokio::spawn(seek(Arc::downgrade(self), Arc::downgrade(session)));
        }
    }

    /// Asks for a connection by NATS, and makes it, or has the one that there is hold on.
    async fn admitted(
        &self,
        session: &Session,
        lease: Held,
    ) -> Result<(Arc<Near>, Duration), Without> {
        let now = |failure: Failure| Without::Now(failure.why(&session.place));
        let life = lease.granted.life;
        // It renews the lease, too.
        let asked = [(0, Operation::Direct)];
        let bytes = self.message(session, Some(lease), life, &asked).map_err(now)?;
        let tried =
            self.send(session, life, bytes, Instant::now() + PATIENCE).await.map_err(now)?;
        let Tried::Answered(Reply { answers, .. }) = tried else {
            return Err(Without::Now("the place does not answer by NATS".to_owned()));
        };
        let offer = match answers.into_iter().next() {
            Some(Ok(offer)) => offer,
            Some(Err(refusal)) if is_of_lease(refusal.why) => {
                session.forget(lease);
                return Err(Without::Now(refusal.text));
            }
            Some(Err(refusal))
                if [Why::Full as u16, Why::AskAgain as u16].contains(&refusal.why) =>
            {
                return Err(Without::Now(refusal.text));
            }
            _ => return Err(Without::None),
        };
        let mut offer: DirectOffer = wire::read(&offer).map_err(|_| Without::None)?;
        // What goes by it can be asked again by NATS.
        offer.most = offer.most.min(self.limit() as u64);
        // Well before it ends, also where one question has no answer.
        let again = Duration::from_millis(offer.holds_ms) / 3;
        if let Some(near) = session.direct.at(life) {
            if near.say(ADMISSION, &offer.token).await {
                return Ok((near, again));
            }
        }
        let near = Arc::new(dial(&offer).await.map_err(Without::Now)?);
        session.direct.is_there(life, Arc::clone(&near));
        kumiki_sys::event!(place = %session.place, at = %offer.address, "own connection is there");
        Ok((near, again))
    }
}

/// Sends a message by an own connection, and waits for its answer until `until`.
pub(crate) async fn send_direct(
    near: &Near,
    bytes: &[u8],
    until: Instant,
) -> Result<Tried, Failure> {
    match timeout_at(until, near.ask(bytes)).await {
        Ok(Sent::Answered(message)) => match wire::parse::<Reply>(&message) {
            Ok(reply) => Ok(Tried::Answered(reply)),
            Err(why) => Err(Failure::Unknown(why)),
        },
        // Some of it, or all, may have arrived: TLS does not tell.
        Ok(Sent::Not | Sent::Lost) | Err(_) => Ok(Tried::Silent),
    }
}

/// Looks for a connection, and keeps it, as long as the client has a lease.
async fn seek(inner: Weak<Inner>, session: Weak<Session>) {
    let mut pause = PAUSE.0;
    loop {
        let wanted;
        let wait = {
            let (Some(inner), Some(session)) = (inner.upgrade(), session.upgrade()) else { return };
            let Some(lease) = session.lease() else { return session.direct.stop_looking(None) };
            wanted = session.direct.tries(lease);
            match inner.admitted(&session, lease).await {
                Ok((near, again)) => Some((near.ended(), near.answers(), again)),
                Err(Without::None) => return session.direct.stop_looking(Some(lease)),
                Err(Without::Now(why)) => {
                    // Said once, however often it is tried.
                    if session.direct.fails(&why) {
                        kumiki_sys::event!(place = %session.place, %why, "no own connection: calls go by NATS");
                    }
                    None
                }
            }
        };
        if let Some((ended, has_answered, again)) = wait {
            let is_over = tokio::select! {
                () = ended => true,
                () = sleep(again) => false,
            };
            if !is_over {
                continue;
            }
            kumiki_sys::event!("own connection has ended: calls go by NATS");
            // One that was of use is wanted again.
            if has_answered.load(Relaxed) {
                pause = PAUSE.0;
            }
        }
        // Another lease: the place is there again.
        let _ = timeout(pause, wanted.notified()).await;
        pause = PAUSE.1.min(pause * 2);
    }
}
