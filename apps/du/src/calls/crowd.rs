//! Whether so much else runs that other threads would only come late.
//!
//! A helper that waits for its turn on a cpu holds up the whole batch that it has a part of: beside
//! thirty busy processes a walk by several threads took more than twice as long as by one. And a
//! walk is over before an engine has learnt that from its own batches. So it is asked of the kernel,
//! first before there are threads and then now and then:
//!
//! - `/proc/loadavg`: how many threads want a cpu just now. Others than this process's for every
//!   cpu leave none for a helper.
//! - `/proc/pressure/cpu`: how much of the last ten seconds somebody waited for a cpu. Those who
//!   want one in turns are not always seen at a moment.
//! - `/proc/thread-self/schedstat`: how long this thread waited for its own cpu since the last look.
//!   It alone knows of a few cpus that a process is bound to, together with others.
//!
//! What a kernel does not have says nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use kumiki_sys::cpuset::CpuSet;

/// Part of the last ten seconds for which somebody waited, in hundredths.
const PRESSURE: f64 = 50.0;

/// Part of the time since the last look for which this thread waited, while it could have run.
const WAITED: f64 = 1.0 / 3.0;

/// A thread waited for nothing worth a word in less than this.
const LEAST_NS: u64 = 2_000_000;

/// Files that tell, open since the first look: most of what a look costs would be to open them.
pub(crate) struct Crowd {
    runnable: Option<File>,
    pressure: Option<File>,
    turns: Option<File>,
    cpus: usize,
    last: Turns,
}

/// A thread's time on its cpu and in the queue for it, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turns {
    ran: u64,
    waited: u64,
}

/// One look at the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    /// Threads of the whole machine that want a cpu.
    runnable: Option<usize>,
    pressure: Option<f64>,
    /// Turns since the last look.
    turns: Turns,
}

impl Crowd {
    pub(crate) fn new() -> Self {
        let open = |path: &str| File::open(path).ok();
        let mut crowd = Crowd {
            runnable: open("/proc/loadavg"),
            pressure: open("/proc/pressure/cpu"),
            turns: open("/proc/thread-self/schedstat"),
            cpus: online(),
            last: Turns::default(),
        };
        crowd.last = crowd.turns();
        crowd
    }

    /// True if there is a crowd; `own` threads of this process may be among those that run.
    pub(crate) fn is_there(&mut self, own: usize) -> bool {
        let turns = self.turns();
        let last = std::mem::replace(&mut self.last, turns);
        let seen = Seen {
            runnable: said(&self.runnable).and_then(|text| runnable(&text)),
            pressure: said(&self.pressure).and_then(|text| pressure(&text)),
            turns: Turns {
                ran: turns.ran.saturating_sub(last.ran),
                waited: turns.waited.saturating_sub(last.waited),
            },
        };
        seen.is_crowd(own, self.cpus)
    }

    fn turns(&self) -> Turns {
        said(&self.turns).and_then(|text| turns(&text)).unwrap_or_default()
    }
}

impl Seen {
    fn is_crowd(self, own: usize, cpus: usize) -> bool {
        let others = self.runnable.unwrap_or(0).saturating_sub(own);
        let Turns { ran, waited } = self.turns;
        let kept_waiting =
            waited >= LEAST_NS && waited as f64 > WAITED * ran.saturating_add(waited) as f64;
        others >= cpus || self.pressure.is_some_and(|part| part >= PRESSURE) || kept_waiting
    }
}

/// A file of the kernel's from its beginning; they are short.
fn said(file: &Option<File>) -> Option<String> {
    let mut text = [0; 256];
    let length = file.as_ref()?.read_at(&mut text, 0).ok()?;
    Some(String::from_utf8_lossy(text.get(..length)?).into_owned())
}

/// `0.20 0.18 0.12 1/80 11206`: the fourth word has those that want a cpu, and all.
fn runnable(loadavg: &str) -> Option<usize> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn pressure(cpu: &str) -> Option<f64> {
    let some = cpu.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// `ran waited turns`.
fn turns(schedstat: &str) -> Option<Turns> {
    let mut words = schedstat.split_whitespace().map(|word| word.parse().ok());
    Some(Turns { ran: words.next()??, waited: words.next()?? })
}

/// Cpus of the machine, not of this process: what others want is counted of the whole machine,
/// too.
fn online() -> usize {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    list.trim().parse().map_or(0, |cpus: CpuSet| cpus.len()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(runnable("0.20 0.18 0.12 35/480 11206\n"), Some(35));
        let cpu = "some avg10=97.50 avg60=1.00 avg300=0.00 total=3\nfull avg10=0.00 avg60=0.00\n";
        assert_eq!(pressure(cpu), Some(97.5));
        assert_eq!(turns("1200 34 5\n"), Some(Turns { ran: 1200, waited: 34 }));
        for odd in ["", "a b c d", "some", "some avg10=x", "-1 -1"] {
            assert_eq!((runnable(odd), pressure(odd), turns(odd)), (None, None, None), "{odd}");
        }
    }

    #[test]
    fn each_sign_tells_by_itself() {
        let none = Seen::default();
        assert!(!none.is_crowd(1, 2), "a kernel that says nothing");
        let runnable = |n| Seen { runnable: Some(n), ..none };
        // This thread, one other: the second cpu is free for a helper or is shared with it.
        assert!(!runnable(2).is_crowd(1, 2) && runnable(3).is_crowd(1, 2));
        assert!(!runnable(3).is_crowd(2, 2), "one of the three is a helper");
        assert!(runnable(33).is_crowd(2, 2) && !runnable(33).is_crowd(2, 64));
        let pressure = |part| Seen { pressure: Some(part), ..none };
        assert!(!pressure(20.0).is_crowd(1, 2) && pressure(97.0).is_crowd(1, 2));
        let waited = |ran, waited| Seen { turns: Turns { ran, waited }, ..none };
        assert!(waited(4_000_000, 4_000_000).is_crowd(1, 64), "half of the time somebody else's");
        assert!(!waited(10_000_000, 2_500_000).is_crowd(1, 64));
        assert!(!waited(0, 1_000_000).is_crowd(1, 64), "too short to say anything");
        assert!(waited(u64::MAX, u64::MAX).is_crowd(1, 64));
    }

    #[test]
    fn this_machine_is_looked_at() {
        let mut crowd = Crowd::new();
        assert!(crowd.cpus >= 1);
        assert!(crowd.runnable.is_some(), "Linux has /proc/loadavg");
        let first = crowd.last;
        let all: u64 = (0..3_000_000).fold(0, |sum, i| std::hint::black_box(sum ^ i));
        let _: bool = crowd.is_there(1);
        assert!(crowd.turns.is_none() || crowd.last.ran > first.ran, "{all} {:?}", crowd.last);
    }
}
