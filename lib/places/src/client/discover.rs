//! The places that there are, by NATS' service protocol.

use std::time::Duration;

use async_nats::StatusCode;
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::client::{Client, Way};
use crate::error::{Error, Result};
use crate::transport::denied::Doing;
use crate::transport::nats::refused;
use crate::transport::sockets;
use crate::wire::SERVICE;

/// Time for which all answers are waited for.
const LONGEST: Duration = Duration::from_secs(2);
/// Time for which a further answer is waited for.
const FURTHER: Duration = Duration::from_millis(200);
/// Places that are heard, at most.
const MOST: usize = 100_000;

/// A place that has answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// Its name, `hostb.core3`.
    pub place: String,
    /// Number of its life.
    pub life: u64,
    /// Kumiki's version there; none of a place of this machine, which does not tell.
    pub version: String,
    /// Requests so far.
    pub requests: u64,
    /// Time that it has taken for them, ns.
    pub busy_ns: u64,
    /// The process of this machine that answers at its socket: its own, or the one that passes its calls on.
    pub process: Option<u32>,
}

/// An answer to `$SRV.INFO` or `$SRV.STATS`, as far as it is of use.
#[derive(Deserialize)]
struct Answer {
    id: String,
    version: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    place: Option<String>,
    life: Option<String>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    num_requests: u64,
    #[serde(default)]
    processing_time: u64,
}

impl Client {
    /// The places that answer at this server and those connected to it, by their names. It takes
    /// some tenths of a second: nobody knows how many there are.
    ///
    /// # Errors
    /// [`Error::Nats`] if nothing can be asked.
    pub async fn places(&self) -> Result<Vec<Seen>> {
        if let Way::Here = self.inner.way {
            return self.places_here().await;
        }
        let (infos, stats) = tokio::join!(self.gather("INFO"), self.gather("STATS"));
        let stats = stats?;
        let seen = infos?.into_iter().filter_map(|info| {
            let of = stats.iter().find(|one| one.id == info.id);
            // One is that of its name, one that of its life, in no order.
            let of = of.map_or(&[][..], |one| &one.endpoints);
            Some(Seen {
                place: info.metadata.place?,
                life: info.metadata.life?.parse().ok()?,
                version: info.version,
                requests: of.iter().map(|endpoint| endpoint.num_requests).sum(),
                busy_ns: of.iter().map(|endpoint| endpoint.processing_time).sum(),
                process: None,
            })
        });
        let mut seen: Vec<Seen> = seen.collect();
        seen.sort();
        Ok(seen)
    }

    /// Places of this machine's processes: those whose sockets somebody answers at.
    async fn places_here(&self) -> Result<Vec<Seen>> {
        let folder = sockets::folder()?;
        let asked = sockets::names(&folder)?.into_iter().map(async |place| {
            let life = self.with_timeout(LONGEST).life(&place).await.ok()?;
            let process = sockets::process(&folder, &place).await;
            Some(Seen { place, life, version: String::new(), requests: 0, busy_ns: 0, process })
        });
        Ok(futures_util::future::join_all(asked).await.into_iter().flatten().collect())
    }

    /// Asks all, and waits until nobody answers any more.
    async fn gather(&self, verb: &str) -> Result<Vec<Answer>> {
        let failed = |why: String| Error::Nats { what: "asking which places there are", why };
        let nats = self.inner.nats("asking which places there are")?;
        let Way::Nats { link, .. } = &self.inner.way else { return Ok(Vec::new()) };
        let mut link = link.clone();
        let since = link.borrow_and_update().denied.count();
        let inbox = nats.new_inbox();
        let subject = format!("$SRV.{verb}.{SERVICE}");
        let denied = [(Doing::Publish, &*subject), (Doing::Subscribe, &*inbox)];
        let mut answers =
            nats.subscribe(inbox.clone()).await.map_err(|error| failed(error.to_string()))?;
        let asked = nats.publish_with_reply(subject.clone(), inbox.clone(), "".into());
        asked.await.map_err(|error| failed(error.to_string()))?;
        let end = Instant::now() + LONGEST;
        let (mut seen, mut until) = (Vec::new(), end);
        while seen.len() < MOST {
            let answer = tokio::select! {
                biased;
                answer = timeout_at(until.min(end), answers.next()) => answer,
                why = refused(&mut link, since, &denied) => return Err(failed(why)),
            };
            let Ok(Some(answer)) = answer else { break };
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                break;
            }
            // Anybody may answer anything.
            seen.extend(serde_json::from_slice::<Answer>(&answer.payload));
            until = Instant::now() + FURTHER;
        }
        Ok(seen)
    }
}
