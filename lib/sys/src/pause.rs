//! Letting time pass.

use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::poll;
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::futex::{self, Deadline, Outcome, Scope};

/// Longest single wait where the kernel is asked for a relative time.
const STEP: Duration = Duration::from_secs(3600);

/// Sleeps for `span` or a little longer, whatever a seccomp filter refuses. However short
/// it is, the thread gives up its cpu for a moment.
///
/// `std::thread::sleep` panics where clock_nanosleep(2) is refused, as it is in some
/// sandboxes. Every program with threads needs futex(2), so that is tried first, then
/// poll(2); if both are refused, the thread yields its cpu until the time is over.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let begin = Instant::now();
/// kumiki_sys::pause::pause(Duration::from_millis(1));
/// assert!(begin.elapsed() >= Duration::from_millis(1));
/// ```
pub fn pause(span: Duration) {
    #[cfg(sim)]
    if let Some(machine) = crate::sim::machine() {
        return machine.work(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }
    let begin = Instant::now();
    let (word, deadline) = (AtomicU32::new(0), Deadline::after(span));
    loop {
        match futex::wait(&word, 0, Scope::Private, Some(deadline)) {
            Ok(Outcome::TimedOut) => return,
            // A signal, or a wake meant for what was at this address before.
            Ok(_) => {}
            Err(_) => return pause_without_futex(begin, span),
        }
    }
}

#[cold]
fn pause_without_futex(begin: Instant, span: Duration) {
    loop {
        let left = span.saturating_sub(begin.elapsed()).min(STEP);
        if left.is_zero() {
            return;
        }
        let timeout = Timespec::try_from(left).expect("an hour at most");
        match poll(&mut [], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of times this thread has left its cpu by itself.
    fn switches() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn the_shortest_pause_leaves_the_cpu() {
        let before = switches();
        (0..20).for_each(|_| pause(Duration::from_nanos(1)));
        // A timer may have run out before the thread is off its cpu: not each counts.
        assert!(switches() > before);
    }

    #[test]
    fn no_way_returns_early() {
        for span in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(3)] {
            let begin = Instant::now();
            pause(span);
            assert!(begin.elapsed() >= span);
            let begin = Instant::now();
            pause_without_futex(begin, span);
            assert!(begin.elapsed() >= span);
        }
    }
}
