//! A program under a filter like Docker's default profile, as far as a server may meet it.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Calls that it refuses with EPERM, io_uring's among them.
const REFUSED: [i64; 10] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_perf_event_open,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Becomes this program.
pub(crate) fn execute(program: &str, words: &[&str]) -> Result<()> {
    let refuse = |calls: &[i64], errno: i32| -> Result<()> {
        let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
        let refused = SeccompAction::Errno(errno as u32);
        let arch = std::env::consts::ARCH.try_into().context("an unknown architecture")?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?;
        Ok(apply_filter(&BpfProgram::try_from(filter)?)?)
    };
    refuse(&REFUSED, libc::EPERM)?;
    // So that the C library takes clone(2), whose flags a filter can see.
    refuse(&[libc::SYS_clone3], libc::ENOSYS)?;
    Err(Command::new(program).args(words).exec()).with_context(|| format!("starting {program}"))
}
