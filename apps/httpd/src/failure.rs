//! The end of a part is the end of the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use kumiki_sys::sentence::with_causes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Signal by which a thread that has ended tells the main thread: no other thread does anything
/// at it.
pub(crate) const FAILED: Signal = Signal::SIGUSR2;

/// Reason for which the server has to end, if it has: without one of its threads it would be a port
/// that takes connections and never answers, which nobody starts anew.
#[derive(Debug)]
pub(crate) struct Failure {
    why: Mutex<Option<String>>,
    tell: fn(),
}

impl Default for Failure {
    fn default() -> Self {
        let tell = || {
            let _ = kill(Pid::this(), FAILED);
        };
        Failure { why: Mutex::new(None), tell }
    }
}

impl Failure {
    /// Does a thread's work; its end but by [`Ok`] is the server's.
    pub(crate) fn watch(&self, thread: &str, work: impl FnOnce() -> Result<()>) {
        // What is left of the work is not used any more.
        let why = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => with_causes(error.as_ref()),
            // The message was said when it happened.
            Err(_) => "it has panicked".to_owned(),
        };
        kumiki_sys::event!(thread, why, "a thread of the server has ended");
        let mut first = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("{thread} has ended, and so does the server: {why}"));
        drop(first);
        (self.tell)();
    }

    pub(crate) fn is_there(&self) -> bool {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// # Errors
    /// If there is one: the process ends by a status at which a service manager starts it anew.
    pub(crate) fn result(&self) -> Result<()> {
        match self.why.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(why) => bail!("{why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    static TOLD: AtomicUsize = AtomicUsize::new(0);

    fn failure() -> Failure {
        let tell = || {
            TOLD.fetch_add(1, SeqCst);
        };
        Failure { why: Mutex::new(None), tell }
    }

    #[test]
    fn a_thread_that_ends_by_an_error_or_a_panic_is_the_servers_end() {
        for (work, said) in [
            ((|| bail!("no more")) as fn() -> Result<()>, "no more"),
            (|| panic!("made up"), "it has panicked"),
        ] {
            let (failure, told) = (failure(), TOLD.load(SeqCst));
            failure.watch("worker 7", work);
            assert!(TOLD.load(SeqCst) == told + 1 && failure.is_there());
            let said = format!("worker 7 has ended, and so does the server: {said}");
            assert_eq!(failure.result().unwrap_err().to_string(), said);
        }
        let (failure, told) = (failure(), TOLD.load(SeqCst));
        failure.watch("worker 7", || Ok(()));
        assert!(TOLD.load(SeqCst) == told && failure.result().is_ok());
    }
}
