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
        gathered(span, || self.since().collect(), usage::ended)
    }

    /// Number of those that have come since and still run; who has ended is waited for.
    pub(crate) fn running(&self) -> usize {
        self.since().filter(|pid| usage::ended(*pid).is_none()).count()
    }

    fn since(&self) -> impl Iterator<Item = i32> {
        children().into_iter().filter(|pid| !self.0.contains(pid))
    }
}

/// Usage of all `children` that end within `span`, as `ended` says.
fn gathered(
    span: Duration,
    children: impl Fn() -> Vec<i32>,
    mut ended: impl FnMut(i32) -> Option<Usage>,
) -> Usage {
    let mut all = Usage::default();
    let begin = Instant::now();
    loop {
        let (mut came, mut left) = (false, false);
        for pid in children() {
            match ended(pid) {
                Some(used) => {
                    all.add(&used);
                    came = true;
                }
                None => left = true,
            }
        }
        let passed = begin.elapsed();
        if passed >= MOST || (!came && (!left || passed >= span)) {
            return all;
        }
        // Who ended after the look left its own children to us: they are looked at at once.
        if !came {
            std::thread::sleep(LOOK);
        }
    }
}

/// Children of this thread, and those that came to the process: the kernel gives them to its first
/// thread.
fn children() -> Vec<i32> {
    let first = format!("/proc/self/task/{}/children", std::process::id());
    let files = ["/proc/thread-self/children", &first];
    let text = files.map(|file| std::fs::read_to_string(file).unwrap_or_default()).join(" ");
    let mut all: Vec<i32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Process 7 has ended between the list and the question, and 8 was its child.
    #[test]
    fn who_came_by_the_end_of_another_one_is_counted_in_the_same_run() {
        let looks = Cell::new(0);
        let children = || {
            looks.set(looks.get() + 1);
            match looks.get() {
                1 => vec![7],
                2 => vec![8],
                _ => vec![],
            }
        };
        let used = |pid: i32| Usage { cpu_ns: [f64::from(pid), 0.0], ..Usage::default() };
        let all = gathered(Duration::ZERO, children, |pid| Some(used(pid)));
        assert_eq!((all.cpu_ns[0], looks.get()), (15.0, 3));
    }

    #[test]
    fn who_stays_is_waited_for_no_longer_than_the_command_took() {
        let begin = Instant::now();
        let all = gathered(Duration::from_millis(20), || vec![7], |_| None);
        assert_eq!(all, Usage::default());
        assert!(begin.elapsed() >= Duration::from_millis(20));
    }
}
