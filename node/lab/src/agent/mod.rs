//! The agent: the first process of a lab's machine, and the one that runs the
//! lab's commands.
//!
//! As process 1 it mounts what programs expect, loads modules and then only
//! collects the processes that nobody else does; commands are run by a child of
//! its own, so that each side waits for its own children alone.

mod command;
mod serve;
mod start;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

/// The word after which a program is to call [`run`].
pub const WORD: &str = "lab-agent";

/// The port by which the agent finds its lab.
pub(crate) const PORT: &str = "kumiki.lab";
/// The first number of QEMU's isa-debug-exit device, and of /dev/port's bytes.
pub(crate) const DEBUG_EXIT: u16 = 0xf4;
/// Argument of the agent's second process.
const SERVE: &str = "serve";

/// Runs the agent; `words` are those after [`WORD`]. Outside of a lab's
/// machine it refuses.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let serving = words.into_iter().next().as_deref() == Some(OsStr::new(SERVE));
    let outcome = match (serving, std::process::id()) {
        (true, _) => serve::serve(),
        (false, 1) => start::first_process(),
        (false, _) => Err("this is the first process of a lab's machine, and nothing else".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&reason);
            eprintln!("kumiki {WORD}: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Writes a line into the kernel log, where it stays among the kernel's own.
fn say(text: &str) {
    if let Ok(mut log) = std::fs::File::options().write(true).open("/dev/kmsg") {
        // Level 5, notice: printed on the console.
        let _ = log.write_all(format!("<5>{text}\n").as_bytes());
    }
}

/// The machine's input and output ports. Cloud flavours of Debian's kernels are
/// built without them, and one that is locked down keeps them to itself. arm64 has none.
fn ports() -> std::io::Result<std::fs::File> {
    if !cfg!(target_arch = "x86_64") {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    std::fs::File::options().write(true).open("/dev/port")
}

/// Ends the machine at once: QEMU exits with twice the code and one.
fn power_off(code: u8) -> Result<(), String> {
    rustix::fs::sync();
    let written = ports().and_then(|ports| ports.write_all_at(&[code], u64::from(DEBUG_EXIT)));
    // Without that device the machine can still be switched off.
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    Err(format!("the machine cannot be ended: {written:?}"))
}
