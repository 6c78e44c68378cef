//! What the processor counts of a run, where perf_event_open(2) allows it.
//!
//! A counter belongs to this thread and is inherited by what it starts, threads and children
//! included, and by theirs. What has ended adds to the counter that it was inherited from. So a
//! run's count is the difference between two readings; the start of a process by this thread,
//! some thousand instructions, is in it on both sides.

use perf_event::events::{Event, Hardware, Software};
use perf_event::{Builder, Counter};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Counts of a run, in user mode; nothing where the machine or the system does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Cycles of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Reads that the last cache had not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_misses: Option<u64>,
    /// Branches that were guessed wrongly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_misses: Option<u64>,
}

impl Counts {
    /// True if nothing was counted.
    pub fn is_none(&self) -> bool {
        *self == Counts::default()
    }
}

/// The counters that could be had, and the processor time of all that this thread has started, and of its own.
pub(crate) struct Counters([Option<Counter>; 4], Option<Counter>);

/// A counter's value and the time that it was asked to count and did, nanoseconds.
type Reading = Option<[u64; 3]>;

/// Reading of all counters.
pub(crate) struct Readings([Reading; 4]);

impl Counters {
    /// Opens what the system allows.
    pub(crate) fn open() -> Self {
        Counters(
            [
                Hardware::INSTRUCTIONS,
                Hardware::CPU_CYCLES,
                Hardware::CACHE_MISSES,
                Hardware::BRANCH_MISSES,
            ]
            .map(|event| open(event.into())),
            open(Software::TASK_CLOCK.into()),
        )
    }

    /// Processor time so far of all that this thread has started, nanoseconds: also of those that still run, and of
    /// those that nobody waits for.
    pub(crate) fn started_ns(&mut self) -> Option<f64> {
        let all = self.1.as_mut()?.read().ok()?;
        let own = clock_gettime(ClockId::ThreadCPUTime);
        Some(all as f64 - (own.tv_sec as f64 * 1e9 + own.tv_nsec as f64))
    }

    /// True if instructions are counted.
    pub(crate) fn instructions(&self) -> bool {
        self.0[0].is_some()
    }

    pub(crate) fn read(&mut self) -> Readings {
        Readings(self.0.each_mut().map(|counter| read(counter.as_mut()?)))
    }
}

impl Readings {
    /// Counts from `earlier` until now.
    pub(crate) fn since(&self, earlier: &Readings) -> Counts {
        let of = |at: usize| since(self.0[at], earlier.0[at]);
        Counts { instructions: of(0), cycles: of(1), cache_misses: of(2), branch_misses: of(3) }
    }
}

fn open(event: Event) -> Option<Counter> {
    let mut builder = Builder::new().kind(event);
    builder.inherit(true);
    let mut counter = builder.build().ok()?;
    counter.enable().ok()?;
    Some(counter)
}

fn read(counter: &mut Counter) -> Reading {
    let read = counter.read_count_and_time().ok()?;
    Some([read.count, read.time_enabled, read.time_running])
}

/// A counter that had to share the processor's registers with others counted a part of the time,
/// and stands for all of it.
fn since(now: Reading, earlier: Reading) -> Option<u64> {
    let (now, earlier) = (now?, earlier?);
    let [count, asked, counted] = [0, 1, 2].map(|at| now[at].saturating_sub(earlier[at]));
    match counted {
        0 => None,
        _ => Some((count as f64 * (asked as f64 / counted as f64)).round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Counters of the kernel go the same way as those that this machine may not have.
    #[test]
    fn what_children_of_children_did_is_counted() {
        let Some(mut counter) = open(Software::PAGE_FAULTS.into()) else {
            println!("passed over: perf_event_open(2) is not allowed here");
            return;
        };
        let mut faults = |line: &str| {
            let before = read(&mut counter);
            assert!(Command::new("sh").args(["-c", line]).status().unwrap().success());
            since(read(&mut counter), before).unwrap()
        };
        let (one, ten) =
            (faults("sh -c :"), faults("for i in 1 2 3 4 5 6 7 8 9 0; do sh -c :; done"));
        assert!(one > 20 && ten > one + 100, "{one} {ten}");
    }

    #[test]
    fn a_counter_that_shared_stands_for_all_of_the_time() {
        assert_eq!(since(Some([150, 40, 30]), Some([50, 20, 20])), Some(200));
        assert_eq!(since(Some([50, 40, 20]), Some([50, 20, 20])), None);
        assert_eq!(since(None, Some([0; 3])), None);
    }
}
