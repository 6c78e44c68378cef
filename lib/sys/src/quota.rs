//! Time that a control group leaves its threads: cpus' worth of it, whatever cpus they may use.
//!
//! Read from `cpu.max` of the group and of all above it (version 2 of cgroups,
//! Documentation/admin-guide/cgroup-v2.rst), or from `cpu.cfs_quota_us` of those of version 1; the least holds.

use std::fs;

/// A control group that counts cpu time.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuQuota {
    /// Its folder.
    pub folder: String,
    /// Cpus' worth of time that it leaves its threads at most; `None` without a limit.
    pub cpus: Option<f64>,
}

/// Cpus' worth of time that this process may use at most; `None` without a limit.
///
/// ```
/// let cpus = kumiki_sys::quota::cpus().map_or("as many as there are".to_owned(), |n| n.to_string());
/// println!("cpus' worth of time: {cpus}");
/// ```
pub fn cpus() -> Option<f64> {
    let read = |file: &str| fs::read_to_string(file).ok();
    let groups = groups(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?, read);
    groups.iter().filter_map(|group| group.cpus).reduce(f64::min)
}

/// Threads that a quota lets run at the same time: one more than whole cpus where there is a part.
pub fn threads() -> Option<usize> {
    cpus().map(whole)
}

fn whole(cpus: f64) -> usize {
    (cpus.ceil() as usize).max(1)
}

/// The groups that count a process's cpu time, its own and those above it, by the text of its `/proc/PID/cgroup` and
/// `/proc/PID/mountinfo`; `read` reads a file.
pub fn groups(own: &str, mountinfo: &str, read: impl Fn(&str) -> Option<String>) -> Vec<CpuQuota> {
    let folders = folders(own, mountinfo).into_iter();
    folders.filter_map(|folder| Some(CpuQuota { cpus: limit(&read, &folder)?, folder })).collect()
}

/// The folders of the process's cpu control groups, each followed by those
/// above it: a quota of any of them counts.
fn folders(own: &str, mountinfo: &str) -> Vec<String> {
    let mut folders = Vec::new();
    for line in own.lines() {
        // `hierarchy:controllers:path`; version 2 has neither of the first two.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let version_2 = controllers.is_empty();
        if !version_2 && !controllers.split(',').any(|name| name == "cpu") {
            continue;
        }
        let mounts = mountinfo.lines().filter_map(Mount::parse);
        let Some(mount) = mounts.into_iter().find(|mount| mount.holds(version_2)) else {
            continue;
        };
        // In a container the mount shows a part of the tree, its `root`.
        let below = match path.strip_prefix(mount.root.trim_end_matches('/')) {
            Some(below) if below.is_empty() || below.starts_with('/') => below,
            _ => "",
        };
        let mut below = below.trim_end_matches('/');
        loop {
            folders.push(format!("{}{below}", mount.point));
            match below.rfind('/') {
                Some(slash) => below = &below[..slash],
                None => break,
            }
        }
    }
    folders
}

/// A line of `/proc/self/mountinfo` (proc(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Mount {
            root: before.next()?,
            point: before.next()?,
            kind: after.next()?,
            options: after.nth(1)?,
        })
    }

    fn holds(&self, version_2: bool) -> bool {
        match version_2 {
            true => self.kind == "cgroup2",
            false => self.kind == "cgroup" && self.options.split(',').any(|o| o == "cpu"),
        }
    }
}

/// The folder's own quota in cpus; `Some(None)` if it has none, `None` if it
/// does not count cpu time.
fn limit(read: impl Fn(&str) -> Option<String>, dir: &str) -> Option<Option<f64>> {
    if let Some(max) = read(&format!("{dir}/cpu.max")) {
        return Some(cpu_max(&max));
    }
    let quota = read(&format!("{dir}/cpu.cfs_quota_us"))?;
    let period = read(&format!("{dir}/cpu.cfs_period_us"))?;
    Some(cpu_max(&format!("{} {}", quota.trim(), period.trim())))
}

/// `50000 100000` is half a cpu; `max 100000` (version 2) and `-1 100000`
/// (version 1) are no quota.
fn cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str =
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

    #[test]
    fn quotas_are_parsed() {
        assert_eq!(cpu_max("50000 100000\n"), Some(0.5));
        assert_eq!(cpu_max("250000 100000"), Some(2.5));
        assert_eq!(cpu_max("max 100000"), None);
        assert_eq!(cpu_max("-1 100000"), None);
        assert_eq!(cpu_max("1 0"), None);
        assert_eq!(cpu_max(""), None);
    }

    #[test]
    fn every_group_up_to_the_root_counts() {
        let folders = folders("0::/user.slice/run.scope\n", V2);
        assert_eq!(
            folders,
            ["/sys/fs/cgroup/user.slice/run.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
        );
    }

    #[test]
    fn version_1_and_hybrid_mounts() {
        let own = "4:memory:/m\n3:cpu,cpuacct:/docker/ab\n0::/\n";
        assert_eq!(
            folders(own, &format!("{V1}\n{V2}")),
            [
                "/sys/fs/cgroup/cpu,cpuacct/docker/ab",
                "/sys/fs/cgroup/cpu,cpuacct/docker",
                "/sys/fs/cgroup/cpu,cpuacct",
                "/sys/fs/cgroup"
            ]
        );
    }

    #[test]
    fn a_container_sees_its_part_of_the_tree() {
        let mount = "31 30 0:28 /docker/ab /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu";
        assert_eq!(
            folders("3:cpu:/docker/ab/inner", mount),
            ["/sys/fs/cgroup/cpu/inner", "/sys/fs/cgroup/cpu"]
        );
        // Not below the mount's root (`/docker/abc` is not in `/docker/ab`).
        assert_eq!(folders("3:cpu:/docker/abc", mount), ["/sys/fs/cgroup/cpu"]);
        assert!(folders("3:cpu:/x", V2).is_empty());
    }

    #[test]
    fn the_least_of_all_groups_above_holds() {
        let read = |file: &str| {
            let text = match file {
                "/sys/fs/cgroup/a/cpu.max" => "150000 100000\n",
                "/sys/fs/cgroup/a/b/cpu.max" => "max 100000\n",
                "/sys/fs/cgroup/a/c/cpu.max" => "50000 100000\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let of = |path: &str| {
            let groups = groups(&format!("1:name=systemd:/\n0::{path}\n"), V2, read);
            groups.iter().filter_map(|group| group.cpus).reduce(f64::min)
        };
        assert_eq!((of("/a"), of("/a/b"), of("/a/c")), (Some(1.5), Some(1.5), Some(0.5)));
        assert_eq!((of("/"), of("/none")), (None, None));
    }

    #[test]
    fn a_part_of_a_cpu_is_a_thread_and_what_is_no_quota_is_none() {
        assert_eq!([0.5, 1.0, 1.5, 2.0].map(whole), [1, 1, 2, 2]);
        for text in ["max 100000", "", "x 1", "100000", "100000 0", "0 100000"] {
            assert_eq!(cpu_max(text), None, "{text:?}");
        }
    }
}
