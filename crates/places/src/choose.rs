//! Making a resource at whichever place, or at the least loaded one.
//!
//! Places say in their beats how busy they were since the one before. A client that has chosen once
//! listens on, so that only its first choice waits for a round of beats.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use async_nats::Subscriber;
use futures_util::StreamExt;
use kumiki_resource::Pattern;
use tokio::time::{Instant, sleep_until};

use crate::client::{Client, Inner};
use crate::error::{Error, Result};
use crate::part::Portable;
use crate::remote::Remote;
use crate::serve::{BEAT, BEATS, Beat};
use crate::wire::Why;

/// A place that was not heard of for so long is passed over.
const SILENT: std::time::Duration = BEAT.saturating_mul(2);
/// Places that are heard, at most.
const MOST: usize = 100_000;

/// Which of several places a resource is made at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Any of them.
    Any,
    /// The one that answered requests for the smallest share of its time since its last beats; any
    /// of those that did so equally.
    LeastLoaded,
}

/// What was heard of places last.
#[derive(Default)]
pub(crate) struct Loads {
    since: OnceLock<Instant>,
    heard: Mutex<HashMap<String, Load>>,
}

#[derive(Clone, Copy)]
struct Load {
    busy_permille: u16,
    at: Instant,
}

impl Loads {
    fn hear(&self, subject: &str, beat: &[u8]) {
        let Some(place) = subject.strip_prefix(BEATS) else { return };
        // Anybody may send anything.
        let Ok(beat) = serde_json::from_slice::<Beat>(beat) else { return };
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() >= MOST {
            heard.retain(|_, load| load.at.elapsed() < SILENT);
        }
        if heard.len() < MOST {
            let load = Load { busy_permille: beat.busy_permille, at: Instant::now() };
            heard.insert(place.to_owned(), load);
        }
    }

    /// Places that are there and match, those first that are to be taken first.
    fn ordered(&self, matches: &Pattern, choice: Choice, now: Instant) -> Vec<String> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |load: &Load| now.duration_since(load.at) < SILENT;
        let there = heard.iter().filter(|(_, load)| is_there(load));
        let mut places: Vec<_> = there
            .filter(|(place, _)| matches.matches(place))
            .map(|(place, load)| (place.clone(), load.busy_permille))
            .collect();
        fastrand::shuffle(&mut places);
        if choice == Choice::LeastLoaded {
            places.sort_by_key(|(_, busy)| *busy);
        }
        places.into_iter().map(|(place, _)| place).collect()
    }
}

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
                Err(error) if was_not_made(&error) => last = error,
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
        let loads = Arc::clone(&self.inner.loads);
        if loads.since.get().is_none() {
            let beats = self.inner.nats.subscribe(format!("{BEATS}>")).await;
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

/// Whether it is certain that nothing was made there, and another place may be asked.
fn was_not_made(error: &Error) -> bool {
    let passed = [Why::NotAllowed, Why::NoPart, Why::OtherVersion];
    match error {
        Error::Gone { .. } | Error::NotSent { .. } => true,
        Error::Refused { why, .. } => passed.contains(why),
        _ => false,
    }
}

/// Hears beats as long as there is a client.
async fn listen(mut beats: Subscriber, client: Weak<Inner>) {
    while let Some(beat) = beats.next().await {
        let Some(client) = client.upgrade() else { return };
        client.loads.hear(&beat.subject, &beat.payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(busy_permille: u16) -> Vec<u8> {
        serde_json::to_vec(&Beat { life: 1, age_ms: 0, changes: 0, busy_permille }).unwrap()
    }

    #[test]
    fn the_least_loaded_comes_first_and_who_is_silent_not_at_all() {
        let loads = Loads::default();
        loads.hear("kumiki.beat.a.core0", &beat(900));
        loads.hear("kumiki.beat.b.core0", &beat(500));
        loads.hear("kumiki.beat.c.core0", &beat(20));
        loads.hear("kumiki.beat.d.core0", b"nonsense");
        let (all, some) = (Pattern::new("*.core0").unwrap(), Pattern::new("b.*").unwrap());
        let now = Instant::now();
        let least = loads.ordered(&all, Choice::LeastLoaded, now);
        assert_eq!(least, ["c.core0", "b.core0", "a.core0"]);
        assert_eq!(loads.ordered(&some, Choice::Any, now), ["b.core0"]);
        assert!(loads.ordered(&all, Choice::Any, now + SILENT).is_empty());
    }
}
