//! Requests that have no answer yet, and how long the longest one had none.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request without an answer for so long is lost.
pub(crate) const LOST: Duration = Duration::from_secs(5);
/// Looks that lie further apart than this say that this program itself was held up.
const HELD_UP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    pending: HashMap<u64, (Instant, String)>,
    longest: (Duration, String),
    looked: Option<Instant>,
}

/// A request without an answer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    watch: &'a Watch,
    key: u64,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, what: String) -> Pending<'_> {
        let mut state = self.state();
        let key = state.next;
        state.next += 1;
        state.pending.insert(key, (Instant::now(), what));
        Pending { watch: self, key }
    }

    pub(crate) fn pending(&self) -> usize {
        self.state().pending.len()
    }

    /// A sentence about the oldest one, if that is lost.
    pub(crate) fn late(&self) -> Option<String> {
        let mut state = self.state();
        let now = Instant::now();
        let gap = state.looked.replace(now).map_or(Duration::ZERO, |before| now - before);
        if gap > HELD_UP {
            state.pending.values_mut().for_each(|(since, _)| *since = (*since + gap).min(now));
        }
        let oldest = state.pending.values().min_by_key(|(since, _)| *since);
        let (since, what) = oldest.filter(|(since, _)| now - *since > LOST)?;
        Some(format!(
            "no answer for {:.1} s: {what} ({} requests are without one)",
            (now - *since).as_secs_f64(),
            state.pending.len()
        ))
    }

    /// How long the longest one was without its answer.
    pub(crate) fn longest(&self) -> (Duration, String) {
        self.state().longest.clone()
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut state = self.watch.state();
        if let Some((since, what)) = state.pending.remove(&self.key) {
            let silence = since.elapsed();
            if silence > state.longest.0 {
                state.longest = (silence, what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_without_an_answer_is_told_once_it_is_late() {
        let watch = Watch::default();
        let first = watch.begin("the first".to_owned());
        let second = watch.begin("the second".to_owned());
        assert_eq!((watch.late(), watch.pending()), (None, 2));
        watch.state().pending.get_mut(&second.key).unwrap().0 -= LOST * 2;
        assert!(watch.late().unwrap().contains("the second (2 requests"));
        drop(second);
        assert_eq!(watch.late(), None);
        drop(first);
        let (silence, what) = watch.longest();
        assert!(silence >= LOST * 2 && what == "the second");
    }

    #[test]
    fn what_this_program_did_not_run_is_not_counted() {
        let watch = Watch::default();
        let _one = watch.begin("one".to_owned());
        let before = Instant::now() - LOST * 3;
        watch.state().looked = Some(before);
        watch.state().pending.values_mut().for_each(|(since, _)| *since = before);
        assert_eq!(watch.late(), None);
    }
}
