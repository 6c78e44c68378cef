//! Beats that were heard of places, and the order in which places are chosen by them.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use kumiki_resource::Pattern;
use tokio::time::Instant;

use crate::wire::beat::{BEAT, BEATS, Beat};

/// A place that was not heard of for so long is passed over.
const SILENT: std::time::Duration = BEAT.saturating_mul(2);
/// Places that are heard, at most.
const MOST: usize = 100_000;

/// Choice among several places for a new resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Any of them.
    Any,
    /// The one that answered requests for the smallest share of its time since its last beats; any
    /// of those that did so equally.
    LeastLoaded,
    /// The one on the caller's cpu; else any of this machine. Their names are those of [`host_name`](
    /// crate::host_name), or of a place at a socket ([`Client::here`](crate::Client::here)).
    Here,
}

/// Beats that were heard of places last.
#[derive(Default)]
pub(crate) struct Loads {
    pub(crate) since: OnceLock<Instant>,
    heard: Mutex<HashMap<String, Load>>,
}

#[derive(Clone, Copy)]
struct Load {
    busy_permille: u16,
    at: Instant,
}

impl Loads {
    pub(crate) fn hear(&self, subject: &str, beat: &[u8]) {
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
    pub(crate) fn ordered(&self, matches: &Pattern, choice: Choice, now: Instant) -> Vec<String> {
        let own = format!("{}.", crate::host_name());
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |load: &Load| now.duration_since(load.at) < SILENT;
        let there = heard.iter().filter(|(_, load)| is_there(load));
        let places = there
            .filter(|(place, _)| matches.matches(place))
            .filter(|(place, _)| choice != Choice::Here || place.starts_with(&own))
            .map(|(place, load)| (place.clone(), load.busy_permille))
            .collect();
        drop(heard);
        ordered(places, choice)
    }
}

/// Places by their names and shares, those first that are to be taken first.
pub(crate) fn ordered(mut places: Vec<(String, u16)>, choice: Choice) -> Vec<String> {
    fastrand::shuffle(&mut places);
    match choice {
        Choice::Any => (),
        Choice::LeastLoaded => places.sort_by_key(|(_, busy)| *busy),
        Choice::Here => {
            let own = format!(".core{}", rustix::thread::sched_getcpu());
            places.sort_by_key(|(place, _)| !place.ends_with(&own));
        }
    }
    places.into_iter().map(|(place, _)| place).collect()
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
        assert!(loads.ordered(&all, Choice::Here, now).is_empty());
        let own = format!("{}.core{}", crate::host_name(), usize::MAX);
        loads.hear(&format!("{BEATS}{own}"), &beat(1000));
        let whole = Pattern::new("*").unwrap();
        assert_eq!(loads.ordered(&whole, Choice::Here, Instant::now()), [own]);
        assert!(loads.ordered(&all, Choice::Any, now + SILENT).is_empty());
    }
}
