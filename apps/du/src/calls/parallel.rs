//! The calling thread alone at first, others as soon as that is worth it, and not while a crowd
//! wants the cpus.

use kumiki_parasc::Operation;

use super::crowd::Crowd;
use super::{Batched, Calls, Plain};

/// Calls after which a walk is taken for a long one: they have taken about as
/// long as an engine takes to measure what it must know of the machine. A short
/// walk is over before.
const LONG: usize = 1024;

/// Calls between two looks at who else wants the cpus: some milliseconds, of which a look is less
/// than a thousandth.
const LOOK: usize = 8192;

/// Looks in a row at which nobody is there before others help again.
const QUIET: u32 = 2;

/// Calls in parallel, from some number of them on.
pub(crate) struct Parallel<W = Crowd> {
    /// Calls until the next look.
    until: usize,
    help: Help,
    /// Looks in a row at which there was no crowd.
    quiet: u32,
    crowd: Option<W>,
}

/// Threads that make calls beside this one.
enum Help {
    /// Nobody has been asked yet.
    Unasked,
    Ready(Box<Batched>),
    /// Threads were refused: the lines are the same, only later.
    Refused,
}

/// Tells of a crowd.
pub(crate) trait Watch {
    /// Begins to look.
    fn begin() -> Self;
    /// True if there is a crowd; `own` threads of this process may run.
    fn is_crowded(&mut self, own: usize) -> bool;
}

impl Watch for Crowd {
    fn begin() -> Self {
        Crowd::new()
    }

    fn is_crowded(&mut self, own: usize) -> bool {
        self.is_there(own)
    }
}

impl<W: Watch> Parallel<W> {
    /// Alone. Call it while the process has one thread: what makes a wake cheap
    /// later takes no time then, and some milliseconds with others there.
    pub(crate) fn new() -> Self {
        kumiki_wait::barrier::is_asymmetric();
        Parallel { until: LONG, help: Help::Unasked, quiet: QUIET, crowd: None }
    }

    /// Maker of the calls of a batch of so many, if not this thread.
    fn helped(&mut self, calls: usize) -> Option<&mut Batched> {
        self.until = self.until.saturating_sub(calls);
        if self.until == 0 {
            self.until = LOOK;
            self.look();
        }
        match &mut self.help {
            Help::Ready(batched) if self.quiet >= QUIET => Some(batched),
            Help::Ready(_) | Help::Unasked | Help::Refused => None,
        }
    }

    /// Asks who else wants the cpus, and for help where nobody does.
    fn look(&mut self) {
        let own = match self.help {
            Help::Refused => return,
            Help::Unasked => 1,
            // A thread on each cpu that it may have, this one among them.
            Help::Ready(_) if self.quiet >= QUIET => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
            Help::Ready(_) => 1,
        };
        let crowd = self.crowd.get_or_insert_with(W::begin);
        self.quiet = if crowd.is_crowded(own) { 0 } else { self.quiet.saturating_add(1) };
        if self.quiet >= QUIET && matches!(self.help, Help::Unasked) {
            let ready = |batched| Help::Ready(Box::new(batched));
            self.help = Batched::new().map_or(Help::Refused, ready);
        }
    }
}

impl<W: Watch> Calls for Parallel<W> {
    fn make<O: Operation>(&mut self, batch: &mut [O], meanwhile: impl FnOnce()) -> Vec<O::Output> {
        match self.helped(batch.len()) {
            Some(batched) => batched.make(batch, meanwhile),
            None => Plain.make(batch, meanwhile),
        }
    }
}

#[cfg(test)]
mod tests {
    use kumiki_parasc::op::{Fstatat, Openat};
    use rustix::fs::{AtFlags, CWD, Mode, OFlags};

    use super::*;

    /// Answers to each look; the last is given again and again.
    struct Scripted(Vec<bool>, Vec<usize>);

    impl Watch for Scripted {
        fn begin() -> Self {
            Scripted(Vec::new(), Vec::new())
        }

        fn is_crowded(&mut self, own: usize) -> bool {
            self.1.push(own);
            if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] }
        }
    }

    fn scripted(looks: &[bool]) -> Parallel<Scripted> {
        let crowd = Some(Scripted(looks.to_vec(), Vec::new()));
        Parallel { crowd, ..Parallel::new() }
    }

    /// True if others help with the next so many calls, some batches of them.
    fn helped(parallel: &mut Parallel<Scripted>, calls: usize) -> bool {
        const BATCH: usize = 256;
        (0..calls / BATCH).fold(false, |_, _| parallel.helped(BATCH).is_some())
    }

    #[test]
    fn a_short_walk_asks_nobody_and_a_long_one_is_helped() {
        let mut quiet = scripted(&[false]);
        assert!(!helped(&mut quiet, LONG - 256) && quiet.crowd.as_ref().unwrap().1.is_empty());
        assert!(helped(&mut quiet, 256) && helped(&mut quiet, 3 * LOOK));
        assert_eq!(quiet.crowd.unwrap().1[0], 1);
    }

    #[test]
    fn beside_a_crowd_there_are_no_threads_at_all() {
        let mut crowded = scripted(&[true]);
        assert!(!helped(&mut crowded, LONG + 8 * LOOK));
        assert!(matches!(crowded.help, Help::Unasked), "no engine was made");
        assert_eq!(crowded.crowd.unwrap().1, [1; 9]);
    }

    #[test]
    fn threads_are_given_up_at_the_first_look_that_finds_a_crowd_and_help_when_it_has_gone() {
        let mut walk = scripted(&[false, true, true, false, false, false]);
        assert!(helped(&mut walk, LONG));
        assert!(!helped(&mut walk, LOOK), "given up at once");
        assert!(!helped(&mut walk, LOOK) && !helped(&mut walk, LOOK), "one quiet look is chance");
        assert!(helped(&mut walk, LOOK) && helped(&mut walk, LOOK));
        // While others do not help, every thread that runs is somebody else's, but this one.
        let own = &walk.crowd.unwrap().1;
        let threads = std::thread::available_parallelism().unwrap().get();
        assert_eq!(own[..6], [1, threads, 1, 1, 1, threads]);
    }

    #[test]
    fn calls_are_made_with_and_without_a_crowd() {
        for looks in [&[false][..], &[true], &[false, true, false]] {
            let mut walk = scripted(looks);
            for _ in 0..2 * (LONG + LOOK) / 256 {
                let mut stats: Vec<_> =
                    (0..255).map(|_| Fstatat::new(CWD, c"/", AtFlags::empty())).collect();
                let found = walk.make(&mut stats, || ());
                assert!(found.len() == 255 && found.iter().all(Result::is_ok));
                let mut missing =
                    [Openat::new(CWD, c"/no/such/file", OFlags::RDONLY, Mode::empty())];
                assert!(walk.make(&mut missing, || ())[0].is_err());
            }
        }
    }
}
