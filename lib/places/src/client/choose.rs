//! Making a resource at whichever place, or at the least loaded one.
//!
//! Places say in their beats how busy they were since the one before. A client that has chosen once
//! listens on, so that only its first choice waits for a round of beats. Places at sockets are asked.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt;
use kumiki_resource::Pattern;
use tokio::time::{Instant, sleep_until};

use crate::client::loads::{Choice, ordered};
use crate::client::{Client, Inner, Way};
use crate::error::{Error, Result};
use crate::part::Portable;
use crate::reference::Reference;
use crate::transport::denied::Doing;
use crate::transport::nats::refused;
use crate::transport::sockets;
use crate::wire::beat::{BEAT, BEATS};
use crate::wire::{self, Operation};

/// Time for which a place at a socket is waited for, if it is to tell how busy it was. One that is later
/// counts as the busiest.
const LONGEST: Duration = Duration::from_secs(1);

impl Client {
    /// Makes a resource at one of the places that match, `*.core*` or `hostb.*`; one that does not
    /// allow it, has no memory of its share left, or is gone, is passed over. Another place may have the name, too: names are each
    /// place's own.
    ///
    /// The first choice of a client waits for a round of beats, two seconds.
    ///
    /// # Errors
    /// [`Error::Gone`] if no place matches; else as [`create`](Client::create), of the place that was
    /// asked last. After [`Error::Unknown`] no further one is asked.
    pub async fn create_among<K: Portable>(
        &self,
        places: &str,
        choice: Choice,
        unique: Option<&str>,
        spec: K::Spec,
    ) -> Result<Reference<K>>
    where
        K::Spec: Clone,
    {
        let mut last = Error::Gone { place: places.to_owned() };
        for place in self.choose(places, choice).await? {
            match self.create::<K>(&place, unique, spec.clone()).await {
                Err(error) if error.is_passed_over() => last = error,
                outcome => return outcome,
            }
        }
        Err(last)
    }

    /// Places that answer and match, the one first that is to be taken first.
    ///
    /// # Errors
    /// [`Error::Value`] if the pattern is none; [`Error::Nats`] if nothing can be heard.
    pub async fn choose(&self, places: &str, choice: Choice) -> Result<Vec<String>> {
        let matches = Pattern::new(places).map_err(|error| Error::Value {
            what: "choosing".to_owned(),
            why: error.to_string(),
        })?;
        if let Way::Here = self.inner.way {
            return self.choose_here(&matches, choice).await;
        }
        let loads = Arc::clone(&self.inner.loads);
        if loads.since.get().is_none() {
            let beats = self.inner.nats("hearing of places")?.subscribe(format!("{BEATS}>")).await;
            let beats = beats.map_err(|error| Error::Nats {
                what: "hearing of places",
                why: error.to_string(),
            })?;
            if loads.since.set(Instant::now()).is_ok() {
                tokio::spawn(listen(beats, Arc::downgrade(&self.inner)));
            }
        }
        // A round of beats, and half a second for those that are late.
        let since = *loads.since.get().expect("it was set above");
        let late = sleep_until(since + BEAT + BEAT / 4);
        if let Way::Nats { link, .. } = &self.inner.way {
            let (mut link, all) = (link.clone(), format!("{BEATS}>"));
            let denied = [(Doing::Subscribe, &*all)];
            tokio::select! {
                () = late => {}
                why = refused(&mut link, 0, &denied) => {
                    return Err(Error::Nats { what: "hearing of places", why });
                }
            }
        }
        Ok(loads.ordered(&matches, choice, Instant::now()))
    }
}

impl Client {
    /// Orders this machine's places at sockets: each is asked how busy it was.
    async fn choose_here(&self, matches: &Pattern, choice: Choice) -> Result<Vec<String>> {
        let mut places = sockets::names(&sockets::folder()?)?;
        places.retain(|place| matches.matches(place));
        if choice != Choice::LeastLoaded {
            return Ok(ordered(places.into_iter().map(|place| (place, 0)).collect(), choice));
        }
        let asked = places.into_iter().map(async |place| {
            let load = match self.with_timeout(LONGEST).ask(&place, Operation::Load).await {
                Ok(answer) => wire::read::<u16>(&answer).ok()?,
                // It is there, and has no time to say so.
                Err(Error::Unanswered { .. }) => u16::MAX,
                Err(_) => return None,
            };
            Some((place, load))
        });
        let told = futures_util::future::join_all(asked).await;
        Ok(ordered(told.into_iter().flatten().collect(), choice))
    }
}

/// Hears beats as long as there is a client.
async fn listen(mut beats: Subscriber, client: Weak<Inner>) {
    while let Some(beat) = beats.next().await {
        let Some(client) = client.upgrade() else { return };
        client.loads.hear(&beat.subject, &beat.payload);
    }
}
