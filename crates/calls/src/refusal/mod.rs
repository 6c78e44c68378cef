//! Calls that a processing thread must not make for another thread.
//!
//! A processing thread shares nearly everything with the thread that asks:
//! memory, descriptors, working directory, signal handlers, limits. What a
//! thread has for itself is another one there: its id, signals, credentials,
//! schedule, registers, stack. A call on those would silently hit the wrong
//! thread, or end the processing thread; each such call is refused, with the
//! reason ([`refusal_of`]). The requesting thread can make them itself.
//!
//! ```text
//!   sysnum ──► one bit a number ──0──► allowed (nearly every request ends here)
//!                    │1
//!                    ▼
//!              rules of the row    ── one holds ──► refused: which call, when, why
//!                                  └─ none ───────► allowed with these arguments
//! ```
//!
//! What numbers and arguments cannot show stands in the documentation of the crate.
//!
//! Sources: pthreads(7), credentials(7), clone(2) and the manual page of each
//! call; where these say process and mean thread, the kernel's source, named
//! beside the rule.

use std::fmt;
use std::ops::RangeInclusive;

use kumiki_sys::syscall::MAX_ARGS;

use crate::callset::CallSet;
use crate::table::{ROWS, counted, row};

/// Why a call is not made for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Refusal {
    /// The call, as in the kernel's table; for those of x32, which it has no more,
    /// all of them.
    pub name: &'static str,
    /// What it would do.
    pub kind: RefusalKind,
    /// The arguments with which it would; `None`: with any.
    pub when: Option<&'static str>,
    /// What it would do, in a sentence's second half: "… is refused: it …".
    pub reason: &'static str,
}

/// What a refused call would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Ends the processing thread or the process, or puts another program in
    /// its place.
    EndsOrReplacesThread,
    /// Makes a thread or process that goes on as a copy of the processing
    /// thread, in its loop.
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
    /// Changes nothing, but answers for the processing thread. The only kind
    /// that a measurement may permit itself: the answer is wrong, and no harm
    /// is done.
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

/// Numbers of which the table has a refusal.
static SUSPECTS: CallSet = {
    let mut set = CallSet::EMPTY;
    let mut i = 0;
    while i < ROWS.len() {
        if ROWS[i].refusals[0].is_some() {
            set = set.with(ROWS[i].sysnum);
        }
        i += 1;
    }
    set
};

/// The numbers by which kernels before 5.4 make calls of x32, a table of its own
/// since (arch/x86/entry/syscalls/syscall_64.tbl). Every other refusal is of a number
/// below 512.
const X32_NUMBERS: RangeInclusive<u16> = 512..=547;
/// Among them 513 is rt_sigreturn, 520 execve, 545 execveat.
static X32: Refusal = Refusal {
    name: "a call of x32 (512 to 547)",
    kind: RefusalKind::EndsOrReplacesThread,
    when: None,
    reason: "may be execve or rt_sigreturn, on kernels before 5.4, and does not exist on others",
};

/// Why call `sysnum` is refused whatever its arguments are; `None` for a call
/// that is allowed, allowed with some arguments ([`refusal_of`]), or unknown
/// here: an unknown one the kernel answers itself, with `ENOSYS` as a rule.
#[inline]
pub fn refusal(sysnum: u16) -> Option<&'static Refusal> {
    if is_suspect(sysnum) { refused_always(sysnum) } else { None }
}

/// Why the call `sysnum` with these arguments is refused; `None`: it may be
/// made. For nearly every call this is one load and one test.
///
/// Arguments from `args_num` on count as 0, and are to be passed so.
///
/// ```
/// use kumiki_calls::{RefusalKind, refusal_of};
///
/// let first = [1, 0, 0, 0, 0, 0];
/// // The affinity of thread 1, whoever asks for it: yes. Of the caller: no.
/// assert_eq!(refusal_of(libc::SYS_sched_setaffinity as u16, 3, &first), None);
/// let refusal = refusal_of(libc::SYS_sched_setaffinity as u16, 3, &[0; 6]).unwrap();
/// assert_eq!(refusal.kind, RefusalKind::ActsOnCallingThread);
/// assert_eq!(refusal.name, "sched_setaffinity");
/// println!("{refusal}");
/// ```
#[inline]
pub fn refusal_of(sysnum: u16, args_num: u16, args: &[u64; MAX_ARGS]) -> Option<&'static Refusal> {
    if is_suspect(sysnum) { refused_with(sysnum, args_num, args) } else { None }
}

/// Every refusal, in the order of the calls' numbers; several for a call that is
/// refused with several kinds of arguments, one for the calls of x32.
pub fn refusals() -> impl Iterator<Item = &'static Refusal> {
    ROWS.iter().flat_map(|row| row.rules()).map(|rule| &rule.refusal).chain([&X32])
}

#[inline]
pub(crate) fn is_suspect(sysnum: u16) -> bool {
    SUSPECTS.get(sysnum).unwrap_or_else(|| X32_NUMBERS.contains(&sysnum))
}

#[cold]
fn refused_always(sysnum: u16) -> Option<&'static Refusal> {
    if X32_NUMBERS.contains(&sysnum) {
        return Some(&X32);
    }
    row(sysnum)?.rules().find(|rule| rule.applies.is_none()).map(|rule| &rule.refusal)
}

#[cold]
fn refused_with(sysnum: u16, args_num: u16, args: &[u64; MAX_ARGS]) -> Option<&'static Refusal> {
    if X32_NUMBERS.contains(&sysnum) {
        return Some(&X32);
    }
    let counted = counted(args_num, args);
    let holds = row(sysnum)?.rules().find(|rule| rule.applies.is_none_or(|of| of(&counted)));
    holds.map(|rule| &rule.refusal)
}

#[cfg(test)]
mod tests;
