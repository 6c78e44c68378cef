//! Signals: arranging for them, sending them, and being interrupted by them.
//!
//! The measuring process has other threads. So signals go to one thread by
//! name (`tgkill`), never to the process, and it is always SIGUSR1, which
//! nobody else here uses.

use nix::sys::signal::Signal;

use kumiki_measure::case::{Case, Choice};

mod arrange;
mod disposition;
mod myself;
mod other_process;
mod target;

/// The signal of every case.
const SIGNAL: Signal = Signal::SIGUSR1;

/// The cases.
pub(super) fn cases(_choice: &Choice) -> Vec<Case> {
    let mut cases = arrange::cases();
    cases.extend(myself::cases());
    cases.extend(other_process::cases());
    cases
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Dispositions belong to the whole process: tests that set one take turns.
    pub(super) fn alone() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
