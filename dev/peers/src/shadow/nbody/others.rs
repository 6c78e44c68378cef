//! Other work on the two cpus: programs that never sleep.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use kumiki_sys::affinity;

use crate::pair::Pair;

/// Counts for ever, and looks now and then whether who started it is still there.
const BUSY: &str =
    "while [ -d /proc/$PPID ]; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done";

/// Programs of their own, not threads of this process: its fences have nothing to do
/// with them. Killed on drop.
pub(super) struct Others(Vec<Child>);

impl Others {
    /// Starts so many on the cpus of the pair in turn, on the helper's first.
    pub(super) fn beside(pair: Pair, count: usize) -> Result<Self> {
        let mut others = Others(Vec::new());
        for cpu in [pair.helper, pair.main].into_iter().cycle().take(count) {
            // What is started inherits the cpu.
            let _bound = affinity::bind(cpu)?;
            let mut busy = Command::new("sh");
            busy.args(["-c", BUSY]).stdin(Stdio::null()).stdout(Stdio::null());
            others.0.push(busy.spawn().context("starting other work: sh")?);
        }
        Ok(others)
    }

    /// Their processes.
    #[cfg(test)]
    pub(super) fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for other in &mut self.0 {
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}
