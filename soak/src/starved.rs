//! How long threads that could run had no cpu.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Waits of all threads, as the last look has found them.
#[derive(Debug, Default)]
pub(crate) struct Starved(HashMap<(u32, u32), Duration>);

impl Starved {
    /// For how long threads of these processes have waited for a cpu since the last look, one after
    /// the other: an answer passes through several, each of which waits its turn.
    pub(crate) fn since_last(&mut self, processes: &[u32]) -> Duration {
        let now: HashMap<_, _> = processes.iter().flat_map(|pid| waited(*pid)).collect();
        let grown = now.iter().map(|(thread, waited)| {
            // Of a new one all of it: it is of now.
            let before = self.0.get(thread).copied().unwrap_or_default();
            waited.saturating_sub(before)
        });
        let sum = grown.sum();
        let is_first = self.0.is_empty();
        self.0 = now;
        if is_first { Duration::ZERO } else { sum }
    }
}

/// Time that each thread of a process has waited for a cpu since it began.
fn waited(pid: u32) -> Vec<((u32, u32), Duration)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waited = tasks.filter_map(|task| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        Some(((pid, thread), second(&fs::read_to_string(task.path().join("schedstat")).ok()?)?))
    });
    waited.collect()
}

/// The second number of schedstat(5): nanoseconds on a run queue.
fn second(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;

    #[test]
    fn the_second_number_is_taken() {
        assert_eq!(second("12 3400 5\n"), Some(Duration::from_nanos(3400)));
        assert_eq!(second("12"), None);
        assert_eq!(second(""), None);
    }

    #[test]
    fn threads_that_crowd_a_cpu_wait_for_it_and_one_that_sleeps_does_not() {
        let own = [std::process::id()];
        if waited(own[0]).is_empty() {
            return eprintln!("passed over: this kernel keeps no schedstat");
        }
        let (mut starved, is_over) = (Starved::default(), AtomicBool::new(false));
        assert_eq!(starved.since_last(&own), Duration::ZERO);
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|threads| {
            for _ in 0..3 * cpus {
                threads.spawn(|| {
                    while !is_over.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let mut sum = Duration::ZERO;
            // However long that takes: they are more than there are cpus.
            while sum < Duration::from_millis(50) {
                thread::sleep(Duration::from_millis(10));
                sum += starved.since_last(&own);
            }
            is_over.store(true, Relaxed);
        });
        assert_eq!(starved.since_last(&[u32::MAX]), Duration::ZERO);
    }
}
