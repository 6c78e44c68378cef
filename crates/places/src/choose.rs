//! Making a resource at whichever place, or at the least loaded one.
//!
//! Places say in their beats how busy they were since the one before. A client that has chosen once
//! listens on, so that only its first choice waits for a round of beats.

use std::sync::{Arc, Weak};

use async_nats::Subscriber;
use futures_util::StreamExt;
use kumiki_resource::Pattern;
use tokio::time::{Instant, sleep_until};

use crate::client::{Client, Inner, Way};
use crate::error::{Error, Result};
use crate::loads::Choice;
use crate::part::Portable;
use crate::remote::Remote;
use crate::serve::{BEAT, BEATS};
use crate::sockets;

impl Client {
    /// Makes a resource at one of the places that match, `*.core*` or `hostb.*`; one that does not
    /// allow it, or that is gone, is passed over. Another place may have the name, too: names are each
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
    ) -> Result<Remote<K>>
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

    /// Places that answer and match, the one first that is to be taken first. Of this machine's own places
    /// ([`Client::here`]) any comes first.
    ///
    /// # Errors
    /// [`Error::Value`] if the pattern is none; [`Error::Nats`] if nothing can be heard.
    pub async fn choose(&self, places: &str, choice: Choice) -> Result<Vec<String>> {
        let matches = Pattern::new(places).map_err(|error| Error::Value {
            what: "choosing".to_owned(),
            why: error.to_string(),
        })?;
        if let Way::Here = self.inner.way {
            // All are of one machine, and do not tell how busy they are.
            let mut places: Vec<String> = sockets::names(&sockets::folder()?)?;
            places.retain(|place| matches.matches(place));
            fastrand::shuffle(&mut places);
            return Ok(places);
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
        sleep_until(since + BEAT + BEAT / 4).await;
        Ok(loads.ordered(&matches, choice, Instant::now()))
    }
}

/// Hears beats as long as there is a client.
async fn listen(mut beats: Subscriber, client: Weak<Inner>) {
    while let Some(beat) = beats.next().await {
        let Some(client) = client.upgrade() else { return };
        client.loads.hear(&beat.subject, &beat.payload);
    }
}
