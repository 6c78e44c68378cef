//! What else the machine did while a case ran: the paper's check that the
//! processor was consumed by the measured program and by nobody else (§2.4).
//!
//! Two windows. *Outer*, from before set-up to after tear-down: every process
//! of the case has been waited for at its end, so the processor time of the
//! case is exactly known and the rest of the cpus' work is somebody else's.
//! *Inner*, the samples alone: faults, switches, interrupts, steal.
//!
//! | figure | source | resolution |
//! |---|---|---|
//! | faults, switches, blocks of a disk | getrusage(2), here and in measured programs | 1 |
//! | other work | `/proc/schedstat`, else `/proc/stat` | 1 ns, else one tick (10 ms) |
//! | waiting for the cpu | `/proc/thread-self/schedstat` | 1 ns |
//! | steal | `/proc/stat` | one tick |
//! | interrupts | `/proc/stat`, the whole machine | 1 |

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use kumiki_sys::pause::pause;

use crate::error::{Error, Result};
use crate::meter::{Counts, usage};
use crate::schema::Activity;

/// Share of a visit that others may use before it counts as disturbed.
const TOLERATED: f64 = 0.05;

/// The files that are read, kept open.
pub(crate) struct Probe {
    stat: File,
    schedstat: Option<File>,
    cpus: Vec<usize>,
    tick_ns: f64,
}

/// The counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    at: Instant,
    own: libc::rusage,
    children: libc::rusage,
    thread_run_ns: f64,
    thread_wait_ns: f64,
    busy_ns: f64,
    steal_ns: u64,
    interrupts: u64,
}

impl Probe {
    /// A probe of these cpus.
    pub(crate) fn new(cpus: &[usize]) -> Result<Self> {
        let stat = File::open("/proc/stat").map_err(|source| Error::Os {
            what: "/proc/stat, needed to see what else the machine does (is /proc mounted?)".into(),
            source,
        })?;
        let tick_ns = 1e9 / rustix::param::clock_ticks_per_second() as f64;
        let schedstat = File::open("/proc/schedstat").ok();
        Ok(Probe { stat, schedstat, cpus: cpus.to_vec(), tick_ns })
    }

    /// Reads every counter at an end of the outer window.
    ///
    /// `/proc/schedstat` counts a task's time when the task leaves the cpu
    /// (`rq_sched_info_depart`, kernel/sched/stats.h), so the measuring thread
    /// leaves it for a moment: otherwise what it ran before the window would count
    /// as somebody else's work, and what it ran at the end would hide others'.
    pub(crate) fn read_outer(&self) -> Result<Snapshot> {
        if self.schedstat.is_some() {
            pause(Duration::from_nanos(1));
        }
        self.read()
    }

    /// Reads every counter. Takes some tens of microseconds, more on machines
    /// with many interrupts.
    pub(crate) fn read(&self) -> Result<Snapshot> {
        let stat = Stat::parse(&whole(&self.stat, "/proc/stat")?, &self.cpus);
        let busy_ns = match &self.schedstat {
            Some(file) => schedstat_busy_ns(&whole(file, "/proc/schedstat")?, &self.cpus),
            None => stat.busy_ticks as f64 * self.tick_ns,
        };
        // Before the thread's own figures: the kernel shows those as of its last
        // look at the clock, and getrusage makes it look (`thread_group_cputime`,
        // kernel/sched/cputime.c). Otherwise what the thread ran since it was last
        // switched in would be missing from one of the two.
        let own = usage(libc::RUSAGE_SELF);
        let (thread_run_ns, thread_wait_ns) = thread_schedstat();
        Ok(Snapshot {
            at: Instant::now(),
            own,
            children: usage(libc::RUSAGE_CHILDREN),
            thread_run_ns,
            thread_wait_ns,
            busy_ns,
            steal_ns: (stat.steal_ticks as f64 * self.tick_ns) as u64,
            interrupts: stat.interrupts,
        })
    }

    /// True if other work is known to the nanosecond.
    pub(crate) fn is_fine(&self) -> bool {
        self.schedstat.is_some()
    }

    /// Smallest amount of other work that can be told from none.
    fn resolution_ns(&self) -> f64 {
        if self.schedstat.is_some() { 0.0 } else { 2.0 * self.tick_ns * self.cpus.len() as f64 }
    }

    /// Activity inside the outer window (`outer`), with faults, switches and a disk's blocks inside
    /// the inner one; `program` is what measured programs counted themselves there.
    pub(crate) fn activity(
        &self,
        outer: [&Snapshot; 2],
        inner: [&Snapshot; 2],
        program: Counts,
    ) -> Activity {
        let [start, end] = inner;
        let own = Counts::each(|count| {
            (count(&end.own) - count(&start.own) + count(&end.children) - count(&start.children))
                .max(0) as u64
        });
        let counts: Counts = [own, program].into_iter().sum();
        let wall_ns = (outer[1].at - outer[0].at).as_nanos() as f64;
        let case_ns = cpu_ns(outer[1]) - cpu_ns(outer[0]);
        // Whoever else belongs to the case may take the cpu from the measuring
        // thread for as long as it runs itself; what it waited longer is loss.
        let others_in_case = case_ns - (outer[1].thread_run_ns - outer[0].thread_run_ns);
        let waited = outer[1].thread_wait_ns - outer[0].thread_wait_ns;
        Activity {
            wall_ns,
            minor_faults: counts.minor_faults,
            major_faults: counts.major_faults,
            voluntary_switches: counts.voluntary_switches,
            involuntary_switches: counts.involuntary_switches,
            blocks_in: counts.blocks_in,
            blocks_out: counts.blocks_out,
            steal_ns: Some(outer[1].steal_ns.saturating_sub(outer[0].steal_ns)),
            interrupts: Some(end.interrupts.saturating_sub(start.interrupts)),
            other_cpu_ns: Some((outer[1].busy_ns - outer[0].busy_ns - case_ns).max(0.0)),
            lost_cpu_ns: Some((waited - others_in_case.max(0.0)).max(0.0)),
        }
    }

    /// Reasons not to trust a visit with this activity.
    pub(crate) fn disturbances(&self, activity: &Activity) -> Vec<String> {
        let tolerated_ns = TOLERATED * activity.wall_ns;
        let other_ns = activity.other_cpu_ns.unwrap_or(0.0);
        let causes = [
            (
                "other work on these cpus",
                other_ns > (tolerated_ns * self.cpus.len() as f64).max(self.resolution_ns()),
            ),
            ("another task held the cpu", activity.lost_cpu_ns.unwrap_or(0.0) > tolerated_ns),
            ("the hypervisor took the cpu", activity.steal_ns.unwrap_or(0) as f64 > tolerated_ns),
            ("pages were read from disk", activity.major_faults + activity.blocks_in > 0),
        ];
        causes.iter().filter(|(_, struck)| *struck).map(|(cause, _)| (*cause).to_owned()).collect()
    }
}

impl Snapshot {
    /// Time that the cpus worked since `earlier` and not for this process or children that
    /// it waited for, or that a hypervisor took, nanoseconds.
    pub(crate) fn others_since(&self, earlier: &Snapshot) -> f64 {
        let busy = self.busy_ns - earlier.busy_ns - (cpu_ns(self) - cpu_ns(earlier));
        busy.max(0.0) + self.steal_ns.saturating_sub(earlier.steal_ns) as f64
    }
}

fn cpu_ns(at: &Snapshot) -> f64 {
    let ns = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    [at.own, at.children].iter().map(|u| ns(u.ru_utime) + ns(u.ru_stime)).sum()
}

fn whole(file: &File, name: &str) -> Result<String> {
    let mut bytes = vec![0; 16 * 1024];
    let mut length = 0;
    loop {
        let n = file
            .read_at(&mut bytes[length..], length as u64)
            .map_err(|e| Error::os(format!("read {name}"), e))?;
        length += n;
        if n == 0 {
            bytes.truncate(length);
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
}

#[derive(Debug, Default, PartialEq)]
struct Stat {
    busy_ticks: u64,
    steal_ticks: u64,
    interrupts: u64,
}

impl Stat {
    /// `/proc/stat` (proc_stat(5)): `cpuN user nice system idle iowait irq
    /// softirq steal guest guest_nice`.
    fn parse(text: &str, cpus: &[usize]) -> Stat {
        let mut stat = Stat::default();
        for line in text.lines() {
            let mut fields = line.split_ascii_whitespace();
            let Some(key) = fields.next() else { continue };
            if key == "intr" {
                stat.interrupts = fields.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            } else if measured(key, cpus) {
                let ticks: Vec<u64> = fields.map(|n| n.parse().unwrap_or(0)).collect();
                let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
                stat.busy_ticks += at(0) + at(1) + at(2) + at(5) + at(6);
                stat.steal_ticks += at(7);
            }
        }
        stat
    }
}

/// `/proc/schedstat` (Documentation/scheduler/sched-stats.rst): the seventh
/// figure of a `cpuN` line is the time tasks ran on it, nanoseconds.
fn schedstat_busy_ns(text: &str, cpus: &[usize]) -> f64 {
    text.lines()
        .filter(|line| line.split(' ').next().is_some_and(|key| measured(key, cpus)))
        .filter_map(|line| line.split(' ').nth(7)?.parse::<u64>().ok())
        .sum::<u64>() as f64
}

fn measured(key: &str, cpus: &[usize]) -> bool {
    key.strip_prefix("cpu").and_then(|n| n.parse().ok()).is_some_and(|n| cpus.contains(&n))
}

/// Time this thread ran, and time it was ready but another ran, nanoseconds;
/// zeros where the kernel does not count.
fn thread_schedstat() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut fields = text.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0.0));
    (fields.next().unwrap_or(0.0), fields.next().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 0 60 1000 0 3 6 9 0 0\n\
        cpu0 10 1 20 500 7 1 2 3 0 0\ncpu1 20 0 40 500 0 2 4 6 0 0\ncpu11 5 5 5 5 5 5 5 5\n\
        intr 4711 0 9\nctxt 12\n";

    #[test]
    fn only_the_measured_cpus_count() {
        let one = Stat::parse(STAT, &[0]);
        assert_eq!(one, Stat { busy_ticks: 34, steal_ticks: 3, interrupts: 4711 });
        assert_eq!(Stat::parse(STAT, &[0, 1]).steal_ticks, 9);
    }

    #[test]
    fn schedstat_sums_the_run_time() {
        let text = "version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 1000 7 3\ndomain0 3 1\n\
            cpu1 0 0 0 0 0 0 500 7 3\n";
        assert_eq!(schedstat_busy_ns(text, &[0, 1]), 1500.0);
        assert_eq!(schedstat_busy_ns(text, &[1]), 500.0);
    }

    #[test]
    fn a_busy_neighbour_is_named() {
        let probe = Probe::new(&[0]).unwrap();
        let quiet = Activity { wall_ns: 1e9, ..Activity::default() };
        assert!(probe.disturbances(&quiet).is_empty());
        let busy =
            Activity { other_cpu_ns: Some(5e8), lost_cpu_ns: Some(1e8), major_faults: 2, ..quiet };
        let causes = probe.disturbances(&busy).join("; ");
        assert!(causes.contains("other work") && causes.contains("another task"), "{causes}");
        assert!(causes.contains("disk") && !causes.contains("hypervisor"), "{causes}");
    }
}
