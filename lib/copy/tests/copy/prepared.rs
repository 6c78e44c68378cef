//! Time limits of what `Auto` measures: a process of its own, as that is once.

use std::thread::sleep;
use std::time::Duration;

use kumiki_copy::{Error, Method, Pair, copy_timeout, prepare_timeout};

use crate::child::in_a_child;

const FORK: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_millis(100);
/// More forks than that do not begin in the limit, each of which takes [`FORK`].
const IN_LIMIT: usize = 20;

/// One thread, whose forks take long and are never answered by a helper.
#[derive(Default)]
struct Slow {
    forks: usize,
    busy: bool,
}

impl Pair for Slow {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        self.forks += 1;
        sleep(FORK);
        ours();
        theirs();
    }

    fn is_free(&self) -> bool {
        !self.busy
    }
}

/// The same, at once: a thousand forks.
#[derive(Default)]
struct Quick(usize);

impl Pair for Quick {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        self.0 += 1;
        ours();
        theirs();
    }
}

/// How many measurements were made, of how many, and the forks begun meanwhile.
fn interrupted(limit: Duration) -> (usize, usize, usize) {
    let mut pair = Slow::default();
    match prepare_timeout(&mut pair, limit) {
        Err(Error::TimedOut { done, of, timeout, .. }) if timeout == limit => {
            (done, of, pair.forks)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn measuring_ends_in_time_and_goes_on_later() {
    in_a_child("prepared::measuring_ends_in_time_and_goes_on_later", measure_in_time);
}

fn measure_in_time() {
    const MIB: usize = 1 << 20;
    let (done, of, forks) = interrupted(Duration::ZERO);
    assert_eq!((done, forks), (0, 0));
    for _ in 0..2 {
        let (done, again, forks) = interrupted(LIMIT);
        // None of the forks, which are the last 16, was answered.
        assert!(done <= of - 16 && forks <= IN_LIMIT, "{done} measurements, {forks} forks");
        assert_eq!(again, of);
    }
    let mut busy = Slow { busy: true, ..Slow::default() };
    assert!(matches!(prepare_timeout(&mut busy, Duration::MAX), Err(Error::Busy)));
    assert_eq!(busy.forks, 0);

    // What copies measure ends in time, too; a stretch that has begun is two forks.
    let from: Vec<u8> = (0..40 * MIB).map(|at| (at % 253) as u8).collect();
    let mut to = vec![0; from.len()];
    let mut pair = Slow::default();
    let done = match copy_timeout(&mut pair, &mut to, &from, Method::Auto, LIMIT) {
        Ok(()) => from.len(),
        Err(Error::TimedOut { done, .. }) => done,
        Err(other) => panic!("{other}"),
    };
    assert!(to[..done] == from[..done]);
    assert!(pair.forks <= IN_LIMIT + 2, "{} forks", pair.forks);
    let (done, ..) = interrupted(Duration::ZERO);
    assert!(done <= of - 16, "{done} of {of} measurements");

    // With time the rest is measured, and once.
    let mut quick = Quick::default();
    prepare_timeout(&mut quick, Duration::MAX).unwrap();
    assert!((900..=1000).contains(&quick.0), "{} forks", quick.0);
    let forks = quick.0;
    prepare_timeout(&mut quick, Duration::ZERO).unwrap();
    busy.forks = 0;
    prepare_timeout(&mut busy, Duration::ZERO).unwrap();
    assert_eq!((quick.0, busy.forks), (forks, 0));
}
