//! What a requesting thread does while others make its calls.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use kumiki_sys::fork::Process;
use kumiki_wait::Ticks;

/// The work has called fork(2), and this is the child: the rest of the batch is the
/// parent's, whose threads are at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forked {
    /// Calls of the batch, the first ones, that were over before the work.
    pub(super) known: usize,
    /// Calls, those that follow, that had been handed to others.
    pub(super) handed: usize,
}

impl Forked {
    /// Adds so many calls before, which are over.
    pub(super) fn after(self, known: usize) -> Self {
        Forked { known: self.known + known, ..self }
    }
}

/// Work beside a batch, done once: in the midst of it if others are at the calls,
/// or else after them.
///
/// A panic waits for the end of the batch: until then the kernel may write to
/// memory that unwinding frees.
#[derive(Default)]
pub(super) struct Meanwhile<'a> {
    work: Option<&'a mut dyn FnMut()>,
    panic: Option<Box<dyn Any + Send>>,
    /// Ticks that it took, until somebody has asked.
    away: u64,
    /// Fork of the process by it, if there was one.
    pub(super) forked: Option<Forked>,
}

impl<'a> Meanwhile<'a> {
    pub(super) fn new(work: &'a mut dyn FnMut()) -> Self {
        Meanwhile { work: Some(work), ..Meanwhile::default() }
    }

    /// True if it has still to be done.
    pub(super) fn is_left(&self) -> bool {
        self.work.is_some()
    }

    /// Does it, if it has not been done, while others have `handed` calls.
    ///
    /// # Errors
    /// [`Forked`] if this is no longer `process`.
    pub(super) fn run(
        &mut self,
        handed: usize,
        ticks: Ticks,
        process: Process,
    ) -> Result<(), Forked> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let start = ticks.now();
        self.panic = catch_unwind(AssertUnwindSafe(work)).err();
        self.away = ticks.now().wrapping_sub(start);
        if process.is_current() { Ok(()) } else { Err(Forked { known: 0, handed }) }
    }

    /// Ticks that it has taken since this was asked last.
    pub(super) fn take_away(&mut self) -> u64 {
        std::mem::take(&mut self.away)
    }

    /// The batch is over and its operations know: what is left is done, and a panic
    /// goes on.
    pub(super) fn end(mut self) {
        if let Some(work) = self.work.take() {
            work();
        }
        if let Some(panic) = self.panic {
            resume_unwind(panic);
        }
    }
}
