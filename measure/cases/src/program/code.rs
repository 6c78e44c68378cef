//! The programs' machine code.

use std::arch::global_asm;

#[cfg(target_arch = "x86_64")]
global_asm!(
    include_str!("x86_64/common.s"),
    include_str!("x86_64/fork.s"),
    include_str!("x86_64/exec.s"),
    options(att_syntax, raw)
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    include_str!("aarch64/common.s"),
    include_str!("aarch64/fork.s"),
    include_str!("aarch64/exec.s"),
    options(raw)
);

unsafe extern "C" {
    static kumiki_program_exit: u8;
    static kumiki_program_exit_end: u8;
    static kumiki_program_start: u8;
    static kumiki_program_fork: u8;
    static kumiki_program_exec: u8;
    static kumiki_program_end: u8;
}

/// Programs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Ends at once.
    Exit,
    /// Forks as often as it is told, `fork.s`.
    Fork,
    /// Execs the other of a pair, `exec.s`.
    Exec,
}

impl Code {
    /// Its bytes, runnable at any address.
    pub(crate) fn bytes(self) -> &'static [u8] {
        let (from, to) = match self {
            Code::Exit => (&raw const kumiki_program_exit, &raw const kumiki_program_exit_end),
            _ => (&raw const kumiki_program_start, &raw const kumiki_program_end),
        };
        // SAFETY: both labels are in the one section that `common.s` opens, `to`
        // after `from`, so that the bytes between them are one object; the
        // section is read-only data, initialised and there for ever.
        unsafe { std::slice::from_raw_parts(from, to.addr() - from.addr()) }
    }

    /// Offset in `bytes` at which it begins to run.
    pub(crate) fn entry(self) -> u64 {
        let entry = match self {
            Code::Exit => return 0,
            Code::Fork => &raw const kumiki_program_fork,
            Code::Exec => &raw const kumiki_program_exec,
        };
        (entry.addr() - (&raw const kumiki_program_start).addr()) as u64
    }

    /// True if it reads the place of its data and bss from behind its last byte.
    pub(crate) fn wants_region(self) -> bool {
        matches!(self, Code::Fork | Code::Exec)
    }
}
