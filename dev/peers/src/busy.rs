//! Processes that do nothing but keep a cpu busy, as others on the machine may.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::child::end_with_parent;

/// Word by which this program is asked to be one.
pub const WORD: &str = "busy";

/// Some of them, until this is dropped.
#[derive(Debug)]
pub struct Busy(Vec<Child>);

impl Busy {
    /// Starts so many.
    pub fn start(count: usize) -> Result<Self> {
        let own = std::env::current_exe().context("finding our own program")?;
        let mut busy = Busy(Vec::new());
        for _ in 0..count {
            let child = Command::new(&own).arg(WORD).stdin(Stdio::null()).spawn();
            busy.0.push(child.context("starting a busy process")?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps a cpu busy until the parent ends this, or ends.
pub fn work() -> Result<()> {
    end_with_parent()?;
    loop {
        std::hint::spin_loop();
    }
}
