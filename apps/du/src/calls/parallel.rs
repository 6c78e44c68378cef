//! The calling thread alone at first, others as soon as that is worth it.

use kumiki_parasc::Operation;

use super::{Batched, Calls, Plain};

/// Calls after which a walk is taken for a long one: they have taken about as
/// long as an engine takes to measure what it must know of the machine. A short
/// walk is over before.
const LONG: usize = 1024;

/// Calls in parallel, from some number of them on.
pub(crate) enum Parallel {
    /// So many calls have been made.
    Alone(usize),
    Ready(Box<Batched>),
    /// There will be no help: the lines are the same, only later.
    Refused,
}

impl Parallel {
    /// Alone. Call it while the process has one thread: what makes a wake cheap
    /// later takes no time then, and some milliseconds with others there.
    pub(crate) fn new() -> Self {
        kumiki_wait::barrier::is_asymmetric();
        Parallel::Alone(0)
    }

    /// Who makes the calls of a batch of so many, if not this thread.
    fn helped(&mut self, calls: usize) -> Option<&mut Batched> {
        if let Parallel::Alone(made) = self {
            *made += calls;
            if *made >= LONG {
                let ready = |batched| Parallel::Ready(Box::new(batched));
                *self = Batched::new().map_or(Parallel::Refused, ready);
            }
        }
        match self {
            Parallel::Ready(batched) => Some(batched),
            Parallel::Alone(_) | Parallel::Refused => None,
        }
    }
}

impl Calls for Parallel {
    fn make<O: Operation>(&mut self, batch: &mut [O], meanwhile: impl FnOnce()) -> Vec<O::Output> {
        match self.helped(batch.len()) {
            Some(batched) => batched.make(batch, meanwhile),
            None => Plain.make(batch, meanwhile),
        }
    }
}
