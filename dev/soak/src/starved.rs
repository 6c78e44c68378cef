//! How long threads that could run had no cpu.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Threads as the last look has found them.
#[derive(Debug, Default)]
pub(crate) struct Starved {
    threads: HashMap<(u32, u32), Thread>,
    looked: Option<Instant>,
}

/// A thread's times, and whether it could run now.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    ran: Duration,
    waited: Duration,
    is_ready: bool,
}

impl Starved {
    /// For how long threads of these processes have waited for a cpu since the last look, one after
    /// the other: an answer passes through several, each of which waits its turn.
    pub(crate) fn since_last(&mut self, processes: &[u32]) -> Duration {
        let now = Instant::now();
        let gap = self.looked.replace(now).map(|before| now - before);
        let threads: HashMap<_, _> = processes.iter().flat_map(|pid| threads(*pid)).collect();
        let starved = |(number, thread): (&(u32, u32), &Thread)| {
            // Of a new one all of it: it is of now.
            let before = self.threads.get(number).copied().unwrap_or_default();
            // A wait is noted when it is over.
            let still = thread.is_ready && thread.ran == before.ran;
            let still = if still { gap.unwrap_or_default() } else { Duration::ZERO };
            thread.waited.saturating_sub(before.waited).max(still)
        };
        let sum = threads.iter().map(starved).sum();
        self.threads = threads;
        if gap.is_some() { sum } else { Duration::ZERO }
    }
}

/// All threads of a process.
fn threads(pid: u32) -> Vec<((u32, u32), Thread)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| {
        let number = task.file_name().to_str()?.parse().ok()?;
        let read = |name: &str| fs::read_to_string(task.path().join(name)).ok();
        Some(((pid, number), parsed(&read("schedstat")?, &read("stat")?)?))
    });
    threads.collect()
}

/// A thread by its schedstat, nanoseconds on a cpu and on a run queue, and by its stat, which has
/// the state behind its name.
fn parsed(schedstat: &str, stat: &str) -> Option<Thread> {
    let mut times = schedstat.split_whitespace().map(str::parse).map_while(Result::ok);
    let (ran, waited) = (times.next()?, times.next()?);
    let (ran, waited) = (Duration::from_nanos(ran), Duration::from_nanos(waited));
    let is_ready = stat.rsplit_once(')')?.1.trim_start().starts_with('R');
    Some(Thread { ran, waited, is_ready })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_is_known_by_its_files() {
        let thread = parsed("12 3400 5\n", "7 (a) R) R 1 7").unwrap();
        assert_eq!(
            (thread.ran, thread.waited),
            (Duration::from_nanos(12), Duration::from_nanos(3400))
        );
        assert!(thread.is_ready && !parsed("12 3400 5", "7 (R) S 1").unwrap().is_ready);
        assert!(parsed("12", "7 (a) R 1").is_none() && parsed("12 3400", "").is_none());
    }

    #[test]
    fn threads_that_crowd_a_cpu_wait_for_it_and_one_that_sleeps_does_not() {
        let own = [std::process::id()];
        if threads(own[0]).is_empty() {
            return eprintln!("passed over: this kernel keeps no schedstat");
        }
        let (mut starved, is_over) = (Starved::default(), AtomicBool::new(false));
        assert_eq!(starved.since_last(&own), Duration::ZERO);
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..3 * cpus {
                scope.spawn(|| {
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
