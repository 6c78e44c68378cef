//! Who else used the cpus during a run: the processes behind "other work on these
//! cpus". Looked at between visits, never within one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use procfs::process::{Process, Stat, all_processes};

use crate::schema::Other;

/// Time between two looks. A process that lives shorter may be missed.
const APART: Duration = Duration::from_secs(1);
/// A look takes at most one part in so many of the run, however many processes
/// there are.
const SHARE: u32 = 100;
/// Names that are kept.
const MOST: usize = 8;
/// Less processor time than this is not worth a name.
const LEAST_S: f64 = 0.1;

/// Watches every process but this one and those that it started.
pub(crate) struct Neighbours {
    tick_s: f64,
    next: Instant,
    /// Ticks of each process, by id and start time, when it was last seen.
    known: HashMap<(i32, u64), u64>,
    used: BTreeMap<String, Used>,
}

#[derive(Default)]
struct Used {
    ticks: u64,
    cpus: BTreeSet<usize>,
}

impl Neighbours {
    pub(crate) fn new() -> Self {
        let tick_s = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let mut neighbours = Neighbours {
            tick_s,
            next: Instant::now(),
            known: HashMap::new(),
            used: BTreeMap::new(),
        };
        neighbours.known =
            neighbours.all().iter().map(|stat| (identity(stat), ticks(stat))).collect();
        neighbours
    }

    /// Looks, if it is time to.
    pub(crate) fn look_if_due(&mut self) {
        let start = Instant::now();
        if start < self.next {
            return;
        }
        self.look();
        self.next = start + APART.max(start.elapsed() * SHARE);
    }

    fn look(&mut self) {
        for stat in self.all() {
            let before = self.known.insert(identity(&stat), ticks(&stat));
            // One that was not there before has used all of its time since.
            let since = ticks(&stat).saturating_sub(before.unwrap_or(0));
            if since > 0 {
                let used = self.used.entry(stat.comm.clone()).or_default();
                used.ticks += since;
                used.cpus.extend(stat.processor.and_then(|cpu| usize::try_from(cpu).ok()));
            }
        }
    }

    /// Every process that is neither this one nor below it.
    fn all(&self) -> Vec<Stat> {
        let Ok(processes) = all_processes() else { return Vec::new() };
        // One that ends meanwhile is left out.
        let stats: Vec<Stat> = processes.flatten().filter_map(|p: Process| p.stat().ok()).collect();
        let parents: HashMap<i32, i32> = stats.iter().map(|stat| (stat.pid, stat.ppid)).collect();
        let own = std::process::id() as i32;
        let ours = |mut pid: i32| {
            // A chain is no longer than there are processes, also while it changes.
            for _ in 0..parents.len() {
                match parents.get(&pid) {
                    _ if pid == own => return true,
                    Some(&parent) => pid = parent,
                    None => return false,
                }
            }
            false
        };
        stats.into_iter().filter(|stat| !ours(stat.pid)).collect()
    }

    /// Processes that used the most, the largest first.
    pub(crate) fn found(mut self) -> Vec<Other> {
        self.look();
        let mut found: Vec<Other> = self
            .used
            .into_iter()
            .map(|(name, used)| Other {
                name,
                cpu_seconds: used.ticks as f64 * self.tick_s,
                cpus: used.cpus.into_iter().collect(),
            })
            .filter(|other| other.cpu_seconds >= LEAST_S)
            .collect();
        found.sort_by(|a, b| b.cpu_seconds.total_cmp(&a.cpu_seconds));
        found.truncate(MOST);
        found
    }
}

fn identity(stat: &Stat) -> (i32, u64) {
    (stat.pid, stat.starttime)
}

fn ticks(stat: &Stat) -> u64 {
    stat.utime + stat.stime
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Spins under a name of its own, as somebody else's: its starter ends at once.
    #[test]
    fn who_spins_is_named_and_what_we_start_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let shell = folder.path().join("kumiki-spins");
        std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
        let mut watch = Neighbours::new();
        let spin = |name: &std::path::Path| {
            format!("{} -c 'while :; do :; done' & echo $!", name.display())
        };
        let mut starter = Command::new("sh")
            .args(["-c", &spin(&shell)])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(starter.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        starter.wait().unwrap();
        let own = folder.path().join("kumiki-own");
        std::os::unix::fs::symlink("/bin/sh", &own).unwrap();
        let mut child = Command::new(&own).args(["-c", "while :; do :; done"]).spawn().unwrap();

        let end = Instant::now() + Duration::from_secs(60);
        let named = |watch: &Neighbours| {
            watch
                .used
                .get("kumiki-spins")
                .is_some_and(|used| used.ticks as f64 * watch.tick_s > 0.2)
        };
        while !named(&watch) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
            watch.look();
        }
        let pid = rustix::process::Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(named(&watch), "{:?}", watch.found());
        assert!(!watch.used.contains_key("kumiki-own"));
        let found = watch.found();
        if let Some(spins) = found.iter().find(|other| other.name == "kumiki-spins") {
            assert!(!spins.cpus.is_empty() && spins.cpu_seconds > 0.1, "{spins:?}");
        }
    }
}
