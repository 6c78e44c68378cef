//! Processes that outlive the command that started them.
//!
//! Their work is the command's. A subreaper becomes their parent when the command ends, and is
//! told by wait4(2) what each used once it ends, too. They have as long as the command had; who
//! still runs then is left behind.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::usage::{self, Usage};

/// Longest time that is waited for them.
const MOST: Duration = Duration::from_secs(2);

/// Time between two looks.
const LOOK: Duration = Duration::from_micros(200);

/// This thread's children at a moment: none of a run that begins then.
pub(crate) struct Before(HashSet<i32>);

impl Before {
    pub(crate) fn now() -> Self {
        Before(children().into_iter().collect())
    }

    /// Usage of those that have come since and end within `span`.
    pub(crate) fn usage(&self, span: Duration) -> Usage {
        let mut all = Usage::default();
        let begin = Instant::now();
        loop {
            let mut left = false;
            for pid in self.since() {
                match usage::ended(pid) {
                    Some(used) => all.add(&used),
                    None => left = true,
                }
            }
            if !left || begin.elapsed() >= span.min(MOST) {
                return all;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Number of those that have come since and still run.
    pub(crate) fn running(&self) -> usize {
        self.since().filter(|pid| usage::ended(*pid).is_none()).count()
    }

    fn since(&self) -> impl Iterator<Item = i32> {
        children().into_iter().filter(|pid| !self.0.contains(pid))
    }
}

/// Children of this thread, and those that came to it.
fn children() -> Vec<i32> {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
