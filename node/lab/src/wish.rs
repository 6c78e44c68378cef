//! What a lab and the agent in its machine say to each other, as openings of streams
//! (`kumiki_stream`) over one port: QEMU's standard input and output.
//!
//! ```text
//!   agent    Hello             once, when it is there
//!   lab      Wish::Run         a command: its data, signals and ending in that stream
//!            Wish::PowerOff    the machine's end
//! ```

use kumiki_stream::exec::Program;
use serde::{Deserialize, Serialize};

/// The agent's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Milliseconds since the machine's kernel began.
    pub(crate) uptime_ms: u64,
    /// True if the machine's end can have a code.
    pub(crate) debug_exit: bool,
}

/// Wish of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wish {
    /// A command to be run; the number is written into the kernel log when it has ended.
    Run(Program, u64),
    /// The machine's end, with this debug-exit code.
    PowerOff(u8),
}

/// Beginning of the lines by which the ends of commands are found in the kernel log.
pub(crate) const MARK: &str = "kumiki-lab: command ";

/// Such a line.
pub(crate) fn mark(number: u64) -> String {
    format!("{MARK}{number:016x} has ended")
}
