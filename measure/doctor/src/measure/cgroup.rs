//! Whether a control group rations cpu time, in version 2 (`cpu.max`), version
//! 1 (`cpu.cfs_quota_us`) or both mounted side by side.

use crate::finding::{Finding, Topic};
use crate::host::Host;

const QUOTA: Topic = Topic {
    part: "measure",
    thing: "cpu time without quota",
    consequence: "the kernel stops the whole process for the rest of a period (often 100 ms) once \
                  the quota is used: spinning waits eat it, and samples show pauses",
};

pub(super) fn findings(host: &Host) -> Vec<Finding> {
    vec![quota(host).unwrap_or_else(|reason| QUOTA.unknown(reason))]
}

fn quota(host: &Host) -> Result<Finding, String> {
    let own = host.read("/proc/self/cgroup")?;
    let mounts = host.read("/proc/self/mountinfo")?;
    let mut tightest: Option<(f64, String)> = None;
    let mut groups = 0;
    for dir in folders(&own, &mounts) {
        let Some(limit) = limit(host, &dir) else {
            continue;
        };
        groups += 1;
        if let Some(cpus) = limit
            && tightest.as_ref().is_none_or(|(least, _)| cpus < *least)
        {
            tightest = Some((cpus, dir));
        }
    }
    Ok(match tightest {
        Some((cpus, dir)) => QUOTA.limited(
            format!("{cpus:.2} cpus, set in {dir}"),
            "lift it: cpu.max = max, `docker run` without --cpus, no Kubernetes cpu limit, \
             systemd CPUQuota=",
        ),
        None if groups == 0 => QUOTA.present("no control group counts cpu time here"),
        None => QUOTA.present("no control group of this process has one"),
    })
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
fn limit(host: &Host, dir: &str) -> Option<Option<f64>> {
    if let Ok(max) = host.read(&format!("{dir}/cpu.max")) {
        return Some(cpu_max(&max));
    }
    let quota = host.read(&format!("{dir}/cpu.cfs_quota_us")).ok()?;
    let period = host.read(&format!("{dir}/cpu.cfs_period_us")).ok()?;
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
    use crate::finding::State;
    use crate::host::host_with;

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
    fn the_tightest_quota_wins() {
        let (_dir, host) = host_with(&[
            ("/proc/self/cgroup", "0::/a/b"),
            ("/proc/self/mountinfo", V2),
            ("/sys/fs/cgroup/a/cpu.max", "150000 100000"),
            ("/sys/fs/cgroup/a/b/cpu.max", "400000 100000"),
        ]);
        let finding = quota(&host).unwrap();
        assert_eq!(finding.state, State::Limited);
        assert_eq!(finding.detail, "1.50 cpus, set in /sys/fs/cgroup/a");
    }

    #[test]
    fn no_quota_is_fine() {
        let (_dir, host) = host_with(&[
            ("/proc/self/cgroup", "3:cpu,cpuacct:/"),
            ("/proc/self/mountinfo", V1),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ]);
        assert_eq!(quota(&host).unwrap().state, State::Present);
    }
}
