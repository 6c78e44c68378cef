//! Calls that a processing thread must not make for another thread.
//!
//! A processing thread shares nearly everything with the thread that asks: memory,
//! descriptors, working directory, signal handlers, limits. What belongs to one thread
//! differs: its id, signals, credentials, scheduling, registers, stack. A call on those
//! would silently act on the wrong thread, or end the processing thread; each such call
//! is refused with a reason ([`refusal_of`]). The requesting thread can make it itself.
//!
//! ```text
//!   sysnum ──► one bit a number ──0──► allowed (nearly every request ends here)
//!                    │1
//!                    ▼
//!              rules of the row    ── one holds ──► refused: which call, when, why
//!                                  └─ none ───────► allowed with these arguments
//! ```
//!
//! What numbers and arguments cannot show is listed in the documentation of
//! `kumiki-parasc`.
//!
//! Sources: pthreads(7), credentials(7), clone(2) and the manual page of each call; where
//! these say process and mean thread, the kernel source that the row names.

use std::ops::RangeInclusive;

use kumiki_sys::syscall::MAX_ARGS;

use crate::callset::CallSet;
use crate::reason::{Refusal, RefusalKind};
use crate::table::{ROWS, counted, row};

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

/// Reason to refuse call `sysnum` with any arguments; `None` for a call that is allowed, allowed
/// with some arguments ([`refusal_of`]), or unknown here (the kernel then answers it, usually with
/// `ENOSYS`).
#[inline]
pub fn refusal(sysnum: u16) -> Option<&'static Refusal> {
    if is_suspect(sysnum) { refused_always(sysnum) } else { None }
}

/// Reason to refuse call `sysnum` with these arguments; `None` if it may be made. For nearly every
/// call this is one load and one test.
///
/// Arguments from `args_num` on count as 0, and must be passed as 0.
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
