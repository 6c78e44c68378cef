//! Whether a control group rations cpu time, in version 2 (`cpu.max`), version
//! 1 (`cpu.cfs_quota_us`) or both mounted side by side.

use kumiki_sys::quota::{self, CpuQuota};

use crate::finding::{Finding, Topic};
use crate::host::Host;

const QUOTA: Topic = Topic {
    part: "measure",
    thing: "cpu time without quota",
    consequence: "the kernel stops the whole process for the rest of a period (often 100 ms) once \
                  the quota is used: spinning waits eat it, and samples show pauses",
};

pub(super) fn findings(host: &Host) -> Vec<Finding> {
    vec![rationed(host).unwrap_or_else(|reason| QUOTA.unknown(reason))]
}

fn rationed(host: &Host) -> Result<Finding, String> {
    let own = host.read("/proc/self/cgroup")?;
    let mounts = host.read("/proc/self/mountinfo")?;
    let mut tightest: Option<(f64, String)> = None;
    let mut groups = 0;
    for CpuQuota { folder, cpus } in quota::groups(&own, &mounts, |file| host.read(file).ok()) {
        groups += 1;
        if let Some(cpus) = cpus
            && tightest.as_ref().is_none_or(|(least, _)| cpus < *least)
        {
            tightest = Some((cpus, folder));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;
    use crate::host::host_with;

    const V2: &str =
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

    #[test]
    fn the_tightest_quota_wins() {
        let (_dir, host) = host_with(&[
            ("/proc/self/cgroup", "0::/a/b"),
            ("/proc/self/mountinfo", V2),
            ("/sys/fs/cgroup/a/cpu.max", "150000 100000"),
            ("/sys/fs/cgroup/a/b/cpu.max", "400000 100000"),
        ]);
        let finding = rationed(&host).unwrap();
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
        assert_eq!(rationed(&host).unwrap().state, State::Present);
    }
}
