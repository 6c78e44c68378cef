//! The running system in a machine, as those see it who run commands in it.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_stream::{Incoming, Mux, MuxLink, Side};

use crate::error::{Error, Result};
use crate::log::KernelLog;
use crate::qemu::End;
use crate::wish::{MARK, Wish};

/// Time after the connection's end that QEMU may take to end, too.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The way to a machine's agent. Any number of threads may run commands through
/// it at once.
#[derive(Clone)]
pub struct Guest {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest").finish_non_exhaustive()
    }
}

struct Shared {
    mux: Mux,
    log: KernelLog,
    /// End of QEMU, where it is ours.
    end: Option<Arc<OnceLock<End>>>,
}

impl Guest {
    /// Over these two directions; the agent's first word is among what comes.
    pub(crate) fn over(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        log: KernelLog,
        end: Option<Arc<OnceLock<End>>>,
    ) -> Result<(Self, Incoming)> {
        let (mux, incoming) = Mux::over(Side::Near, 1, reader, writer)
            .map_err(|source| Error::Stream { what: "what the machine says", source })?;
        Ok((Guest { shared: Arc::new(Shared { mux, log, end }) }, incoming))
    }

    /// The kernel log so far.
    pub fn log_text(&self) -> String {
        self.shared.log.text()
    }

    pub(crate) fn log(&self) -> &KernelLog {
        &self.shared.log
    }

    /// True if it can no longer be reached.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.mux.is_over()
    }

    /// A stream for a wish.
    pub(crate) fn open(&self, wish: &Wish) -> Result<MuxLink> {
        self.shared.mux.open(wish).map_err(|error| self.failed(error))
    }

    /// A stream for a wish that somebody else has put into a frame.
    pub(crate) fn open_with(&self, body: &[u8]) -> Result<MuxLink> {
        self.shared.mux.open_with(body).map_err(|error| self.failed(error))
    }

    /// Error of this crate for a stream's failure.
    pub(crate) fn failed(&self, error: kumiki_stream::Error) -> Error {
        match error {
            kumiki_stream::Error::Gone => self.ended(),
            kumiki_stream::Error::Passing { what, source } => Error::Stream { what, source },
            other => Error::Agent(other.to_string()),
        }
    }

    /// The error of a machine that has ended.
    pub(crate) fn ended(&self) -> Error {
        let begin = Instant::now();
        let end = self.shared.end.as_ref();
        while end.is_some_and(|end| end.get().is_none()) && begin.elapsed() < END_LIMIT {
            thread::sleep(Duration::from_millis(5));
        }
        let reason = reason(&self.shared.log, end.and_then(|end| end.get()));
        Error::Ended { reason, log: self.shared.log.tail() }
    }
}

/// Reason for which a machine has ended, by its log and by QEMU.
pub(crate) fn reason(log: &KernelLog, end: Option<&End>) -> String {
    if let Some(panic) = log.text().lines().find(|line| line.contains("Kernel panic")) {
        return panic.to_owned();
    }
    // What the agent wrote when it could not go on.
    let own = |line: &&str| line.contains("kumiki-lab: ") && !line.contains(MARK);
    if let Some(own) = log.text().lines().rev().find(own) {
        return own.to_owned();
    }
    match end {
        Some(end) if !end.said.is_empty() => format!("QEMU said: {}", end.said),
        Some(end) if end.status.success() => "it was switched off or restarted".to_owned(),
        Some(end) => format!("QEMU ended with {}", end.status),
        None => "it was switched off, or whoever kept it has ended".to_owned(),
    }
}
