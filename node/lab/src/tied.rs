//! Programs of this machine that work for a lab.

use std::ffi::OsStr;
use std::process::Command;

/// Ends a program with the one that started it; of util-linux.
pub(crate) const SETPRIV: &str = "setpriv";

/// A program that the kernel kills when the *thread* that starts it ends, however that
/// is: none goes on working for nobody.
pub(crate) fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}
