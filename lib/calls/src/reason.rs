//! Why a call is refused.

use std::fmt;

/// Reason for which a call is not made for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Refusal {
    /// The call's name in the kernel's table; one name for all x32 calls, which that
    /// table no longer has.
    pub name: &'static str,
    /// Kind of harm that it would do.
    pub kind: RefusalKind,
    /// The arguments with which it is refused; `None`: with any.
    pub when: Option<&'static str>,
    /// Reason, as the second half of a sentence: "… is refused: it …".
    pub reason: &'static str,
}

/// Harm that a refused call would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Ends the processing thread or the process, or replaces the program.
    EndsOrReplacesThread,
    /// Makes a thread or process that continues as a copy of the processing thread, in
    /// its loop.
    CopiesThread,
    /// Works on the caller's registers or stack.
    NeedsRegistersOrStack,
    /// Changes which signals the processing thread gets, or on which stack.
    ChangesSignalsOfThread,
    /// Waits for signals that the processing thread does not get.
    WaitsForSignalsOfThread,
    /// Changes the credentials (ids, capabilities, keyrings, security label)
    /// of the processing thread alone.
    ChangesCredentialsOfThread,
    /// Changes something else of the processing thread alone.
    ActsOnCallingThread,
    /// Changes nothing, but answers for the processing thread. The only kind that an
    /// engine can be told to allow, for measurements: the answer is wrong, but does no
    /// harm.
    AnswersForWrongThread,
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefusalKind::EndsOrReplacesThread => "ends or replaces the thread",
            RefusalKind::CopiesThread => "copies the thread",
            RefusalKind::NeedsRegistersOrStack => "needs the caller's registers or stack",
            RefusalKind::ChangesSignalsOfThread => "changes the thread's signals",
            RefusalKind::WaitsForSignalsOfThread => "waits for the thread's signals",
            RefusalKind::ChangesCredentialsOfThread => "changes the thread's credentials",
            RefusalKind::ActsOnCallingThread => "acts on the calling thread",
            RefusalKind::AnswersForWrongThread => "answers for the wrong thread",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { name, when, reason, .. } = self;
        f.write_str(name)?;
        if let Some(when) = when {
            write!(f, " with {when}")?;
        }
        write!(f, " is not made for another thread: it {reason}")
    }
}
