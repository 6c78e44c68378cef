//! One row a system call: everything that this crate knows of it.
//!
//! Whatever needs an answer in one load derives a list of its own from the rows, when
//! this crate is compiled: what a call contends on ([`crate::kind`]), which calls have a
//! refusal ([`crate::refusal_of`]). So nothing has to be entered twice.

mod rows;

use kumiki_sys::syscall::MAX_ARGS;
use syscalls::Sysno;

use crate::callset::NUMBERS;
use crate::contends::Contends;
use crate::reason::{Refusal, RefusalKind};
pub(crate) use rows::ROWS;

/// Tells something of a call by its arguments, of which those that were not given are 0.
pub(crate) type OfArgs = fn(&[u64; MAX_ARGS]) -> bool;

/// Facts about one call.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) sysnum: u16,
    name: &'static str,
    /// Locks for which other such calls wait.
    pub(crate) contends: Contends,
    /// True if it commonly waits for a device, a time or another thread.
    pub(crate) sleeps: bool,
    /// Returns true if it does with these arguments; `None`: they do not tell.
    pub(crate) sleeps_if: Option<OfArgs>,
    /// Reasons for which another thread must not make it, the worst first.
    pub(crate) refusals: [Option<Rule>; MOST_REFUSALS],
}

/// One reason to refuse a call.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) refusal: Refusal,
    /// Returns true if it holds with these arguments; `None`: with any.
    pub(crate) applies: Option<OfArgs>,
}

const MOST_REFUSALS: usize = 3;
const PID_0: &str = "pid 0 (the calling thread)";

/// A call of the table of names.
const fn call(call: Sysno) -> Row {
    numbered(call.id() as u16, call.name())
}

/// A call that the table of names lacks.
const fn numbered(sysnum: u16, name: &'static str) -> Row {
    Row {
        sysnum,
        name,
        contends: Contends::Nothing,
        sleeps: false,
        sleeps_if: None,
        refusals: [None; MOST_REFUSALS],
    }
}

impl Row {
    /// Takes the lock of the memory map.
    const fn address_space(self) -> Row {
        self.contends(Contends::AddressSpace)
    }

    /// Works on the open file behind argument `arg`.
    const fn file(self, arg: u8) -> Row {
        self.contends(Contends::Descriptor(arg))
    }

    /// Makes or takes away a name, in the directory from which argument `arg` starts.
    const fn directory(self, arg: Option<u8>) -> Row {
        self.contends(Contends::Directory(arg))
    }

    const fn contends(self, contends: Contends) -> Row {
        assert!(matches!(self.contends, Contends::Nothing), "a call contends on two things");
        if let Contends::Descriptor(arg) | Contends::Directory(Some(arg)) = contends {
            assert!((arg as usize) < MAX_ARGS, "a call has no such argument");
        }
        Row { contends, ..self }
    }

    /// Commonly waits, whatever its arguments are.
    const fn sleeps(self) -> Row {
        Row { sleeps: true, ..self }
    }

    /// Commonly waits, and certainly not unless the arguments say so.
    const fn sleeps_if(self, says_so: OfArgs) -> Row {
        Row { sleeps: true, sleeps_if: Some(says_so), ..self }
    }

    /// Waits if the arguments say so, which is rare.
    const fn sleeps_only_if(self, says_so: OfArgs) -> Row {
        Row { sleeps_if: Some(says_so), ..self }
    }

    /// Refused with any arguments.
    const fn refused(self, kind: RefusalKind, reason: &'static str) -> Row {
        self.rule(kind, None, None, reason)
    }

    /// Refused with arguments that `applies` finds, which `when` names.
    const fn refused_if(
        self,
        kind: RefusalKind,
        when: &'static str,
        applies: OfArgs,
        reason: &'static str,
    ) -> Row {
        self.rule(kind, Some(when), Some(applies), reason)
    }

    /// Refused if the first argument, a thread's id, is 0.
    const fn refused_for_pid_0(self, kind: RefusalKind, reason: &'static str) -> Row {
        self.refused_if(kind, PID_0, |args| int(args[0]) == 0, reason)
    }

    const fn rule(
        mut self,
        kind: RefusalKind,
        when: Option<&'static str>,
        applies: Option<OfArgs>,
        reason: &'static str,
    ) -> Row {
        let mut at = 0;
        while let Some(before) = self.refusals[at] {
            assert!(before.applies.is_some(), "a refusal is never reached");
            at += 1;
        }
        let refusal = Refusal { name: self.name, kind, when, reason };
        self.refusals[at] = Some(Rule { refusal, applies });
        self
    }

    /// The call's refusals, in the order in which they are looked at.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.refusals.iter().flatten()
    }
}

/// Row of each number, [`NO_ROW`] for a number that has none.
static ROW_OF: [u16; NUMBERS] = {
    let mut row_of = [NO_ROW; NUMBERS];
    let mut i = 0;
    while i < ROWS.len() {
        let sysnum = ROWS[i].sysnum as usize;
        assert!(row_of[sysnum] == NO_ROW, "a call has two rows");
        row_of[sysnum] = i as u16;
        i += 1;
    }
    row_of
};

const NO_ROW: u16 = u16::MAX;

/// Facts about call `sysnum`.
pub(crate) fn row(sysnum: u16) -> Option<&'static Row> {
    let at = *ROW_OF.get(usize::from(sysnum))?;
    ROWS.get(usize::from(at))
}

/// An argument of the C type `int` or `unsigned int`: the kernel looks at the
/// lower half only.
pub(crate) const fn int(arg: u64) -> i32 {
    arg as i32
}

/// The first `args_num` of `args`, and 0 for the rest.
pub(crate) fn counted(args_num: u16, args: &[u64; MAX_ARGS]) -> [u64; MAX_ARGS] {
    let mut counted = [0; MAX_ARGS];
    let len = usize::from(args_num).min(MAX_ARGS);
    counted[..len].copy_from_slice(&args[..len]);
    counted
}

#[cfg(test)]
mod tests;
