//! Requests that have no answer yet, and how long the longest one had none.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request without an answer for so long is lost, where those who answer had their cpus.
pub(crate) const LOST: Duration = Duration::from_secs(5);
/// And however busy the machine is, after so many times that.
const AT_LAST: u32 = 24;
/// Looks that lie further apart than this say that this program itself was held up.
const HELD_UP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    pending: HashMap<u64, AskedAt>,
    longest: (Duration, String),
    /// Other than [`LOST`].
    lost: Option<Duration>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct AskedAt {
    since: Instant,
    what: String,
    /// For so long of it nobody could have answered.
    excused: Duration,
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
        let asked = AskedAt { since: Instant::now(), what, excused: Duration::ZERO };
        state.pending.insert(key, asked);
        Pending { watch: self, key }
    }

    pub(crate) fn pending(&self) -> usize {
        self.state().pending.len()
    }

    /// Time since which the oldest one has no answer; zero if there is none.
    pub(crate) fn oldest(&self) -> Duration {
        let state = self.state();
        state.pending.values().map(|asked| asked.since.elapsed()).max().unwrap_or_default()
    }

    pub(crate) fn lost_after(&self, span: Duration) {
        self.state().lost = Some(span);
    }

    /// Time after which one without an answer is lost.
    pub(crate) fn lost(&self) -> Duration {
        self.state().lost.unwrap_or(LOST)
    }

    /// A sentence about the oldest one, if that is lost. Since the last look, threads that could have
    /// run waited for a cpu for as long as `starved`.
    pub(crate) fn late(&self, starved: Duration) -> Option<String> {
        let mut state = self.state();
        let now = Instant::now();
        let gap = state.looked.replace(now).map_or(Duration::ZERO, |before| now - before);
        let excused = if gap > HELD_UP { gap } else { starved.min(gap) };
        for asked in state.pending.values_mut() {
            asked.excused = (asked.excused + excused).min(now - asked.since);
        }
        let silence = |asked: &AskedAt| now - asked.since - asked.excused;
        let oldest = state.pending.values().max_by_key(|asked| silence(asked))?;
        let (all, excused) = (now - oldest.since, oldest.excused);
        let lost = state.lost.unwrap_or(LOST);
        let is_lost = silence(oldest) > lost || all > AT_LAST * lost;
        is_lost.then(|| {
            format!(
                "no answer for {:.1} s: {} ({} requests are without one; for {:.1} s of it threads \
                 waited for a cpu, or this program did not run)",
                all.as_secs_f64(),
                oldest.what,
                state.pending.len(),
                excused.as_secs_f64()
            )
        })
    }

    /// Longest time that one was without its answer.
    pub(crate) fn longest(&self) -> (Duration, String) {
        self.state().longest.clone()
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut state = self.watch.state();
        if let Some(asked) = state.pending.remove(&self.key) {
            let silence = asked.since.elapsed();
            if silence > state.longest.0 {
                let excused = asked.excused.as_millis();
                let starved = format!(", {excused} ms of it for want of a cpu");
                let starved = if excused > 0 { &*starved } else { "" };
                state.longest = (silence, format!("{}{starved}", asked.what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn one_without_an_answer_is_told_once_it_is_late() {
        let watch = Watch::default();
        let first = watch.begin("the first".to_owned());
        let second = watch.begin("the second".to_owned());
        assert_eq!((watch.late(NONE), watch.pending()), (None, 2));
        assert!(watch.oldest() < LOST * 2);
        watch.state().pending.get_mut(&second.key).unwrap().since -= LOST * 2;
        assert!(watch.late(NONE).unwrap().contains("the second (2 requests"));
        assert!(watch.oldest() >= LOST * 2);
        drop(second);
        assert_eq!(watch.late(NONE), None);
        drop(first);
        assert_eq!(watch.oldest(), NONE);
        let (silence, what) = watch.longest();
        assert!(silence >= LOST * 2 && what == "the second");
    }

    #[test]
    fn what_this_program_did_not_run_is_not_counted() {
        let watch = Watch::default();
        let _one = watch.begin("one".to_owned());
        let before = Instant::now() - LOST * 3;
        watch.state().looked = Some(before);
        watch.state().pending.values_mut().for_each(|asked| asked.since = before);
        assert_eq!(watch.late(NONE), None);
    }

    /// Looks of a machine that gives its threads no cpu are not counted, but not for ever.
    #[test]
    fn what_waits_for_a_cpu_is_late_at_last() {
        let (watch, other) = (Watch::default(), Watch::default());
        let (_one, _two) = (watch.begin("one".to_owned()), other.begin("two".to_owned()));
        let look_at = |watch: &Watch, starved| {
            let second = Duration::from_millis(900);
            {
                let mut state = watch.state();
                state.looked = Some(Instant::now() - second);
                state.pending.values_mut().for_each(|asked| asked.since -= second);
            }
            watch.late(starved)
        };
        let look = |starved| look_at(&watch, starved);
        assert_eq!((1..=100).find_map(|_| look(LOST)), None);
        let told = (1..=10).find_map(|_| look(NONE)).unwrap();
        assert!(told.contains("for 90.") && told.contains("waited for a cpu"), "{told}");
        let told = (1..=150).find_map(|_| look_at(&other, LOST)).unwrap();
        assert!(told.starts_with("no answer for 120."), "{told}");
    }
}
