//! Time limits of what `Auto` measures: a process of its own, as that is once.

use std::thread::sleep;
use std::time::Duration;

use kumiki_shadow::Error;
use kumiki_shadow::copy::{Method, Pair, copy, copy_timeout, prepare_timeout};

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

/// How many measurements were made of 18, and the forks begun meanwhile.
fn interrupted(limit: Duration) -> (usize, usize) {
    let mut pair = Slow::default();
    match prepare_timeout(&mut pair, limit) {
        Err(Error::TimedOut { done, of: 18, timeout, .. }) if timeout == limit => {
            (done, pair.forks)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn measuring_ends_in_time_and_leaves_nothing_half_known() {
    const MIB: usize = 1 << 20;
    assert_eq!(interrupted(Duration::ZERO), (0, 0));
    for _ in 0..2 {
        let (done, forks) = interrupted(LIMIT);
        // The memory's, unless this thread was away for the whole limit.
        assert!(done <= 1 && forks <= IN_LIMIT, "{done} measurements, {forks} forks");
    }
    let mut busy = Slow { busy: true, ..Slow::default() };
    assert!(matches!(prepare_timeout(&mut busy, Duration::MAX), Err(Error::Busy)));
    assert_eq!(busy.forks, 0);

    // A copy with a limit that has earned to measure: interrupted, it copies all the same.
    let from: Vec<u8> = (0..40 * MIB).map(|at| (at % 253) as u8).collect();
    let mut to = vec![0; from.len()];
    let mut pair = Slow::default();
    copy(&mut pair, &mut to[..32 * MIB], &from[..32 * MIB], Method::Auto).unwrap();
    assert_eq!(pair.forks, 0);
    let stretch = 32 * MIB..40 * MIB;
    let (last, same) = (&mut to[stretch.clone()], &from[stretch]);
    copy_timeout(&mut pair, last, same, Method::Auto, LIMIT).unwrap();
    assert!(pair.forks <= IN_LIMIT, "{} forks", pair.forks);
    assert!(to == from);
    assert_eq!(interrupted(Duration::ZERO), (0, 0));

    // It is to be earned anew.
    let before = pair.forks;
    copy(&mut pair, &mut to[..8 * MIB], &from[..8 * MIB], Method::Auto).unwrap();
    assert_eq!(pair.forks, before);

    // With time it is measured, from the beginning, and once.
    let mut quick = Quick::default();
    prepare_timeout(&mut quick, Duration::MAX).unwrap();
    assert_eq!(quick.0, 1000);
    prepare_timeout(&mut quick, Duration::ZERO).unwrap();
    busy.forks = 0;
    prepare_timeout(&mut busy, Duration::ZERO).unwrap();
    assert_eq!((quick.0, busy.forks), (1000, 0));
}
