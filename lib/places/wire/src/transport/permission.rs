//! What a NATS server must let a place do, asked before a place is taken away from where it serves.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::transport::denied::Doing;
use crate::transport::nats::{Nats, refused};
use crate::wire::beat::BEATS;
use crate::wire::{SUBJECT, subject_of};

/// Time for which the server's answer is waited for.
const LONGEST: Duration = Duration::from_secs(2);
/// Time in which a denial that has come is told: it comes by a task of its own.
const SOON: Duration = Duration::from_millis(50);

/// Subjects that a place of this name and life must be let use, and how.
pub fn needed(name: &str, life: u64) -> [(Doing, String); 4] {
    let beats = format!("{BEATS}{name}");
    [
        (Doing::Subscribe, format!("{SUBJECT}{name}")),
        (Doing::Subscribe, subject_of(name, life)),
        (Doing::Subscribe, beats.clone()),
        (Doing::Publish, beats),
    ]
}

/// Asks whether this user may serve a place of this name, which another process serves meanwhile.
///
/// # Errors
/// [`Error::Connect`]; [`Error::Nats`], with what the server denies.
pub async fn may_serve(nats: &Nats, name: &str) -> Result<()> {
    const WHAT: &str = "asking whether a place may be served here";
    let failed = |why: async_nats::Error| Error::Nats { what: WHAT, why: why.to_string() };
    let (client, mut link) = nats.connect(name).await?;
    // The subject of a life that no place has: its callers are heard by the place alone.
    let needed = needed(name, 0);
    let mut heard = Vec::new();
    for (doing, subject) in &needed {
        match doing {
            Doing::Subscribe => {
                let its = client.subscribe(subject.clone()).await;
                heard.push(its.map_err(|error| failed(error.into()))?);
            }
            // It is no beat, and passed over.
            Doing::Publish => {
                let said = client.publish(subject.clone(), "".into()).await;
                said.map_err(|error| failed(error.into()))?;
            }
        }
    }
    // A message to itself comes behind whatever the server denies.
    let inbox = client.new_inbox();
    let own = client.subscribe(inbox.clone()).await;
    let mut own = own.map_err(|error| failed(error.into()))?;
    client.publish(inbox, "".into()).await.map_err(|error| failed(error.into()))?;
    let subjects: Vec<(Doing, &str)> =
        needed.iter().map(|(doing, subject)| (*doing, subject.as_str())).collect();
    let why = tokio::select! {
        why = refused(&mut link, 0, &subjects) => Some(why),
        _ = timeout(LONGEST, own.next()) => {
            timeout(SOON, refused(&mut link, 0, &subjects)).await.ok()
        }
    };
    match why {
        Some(why) => Err(Error::Nats { what: WHAT, why }),
        None => Ok(()),
    }
}
