//! What stands between the cpus and a steady measurement: hypervisor, power
//! management, and whether energy can be read.

use std::collections::BTreeMap;

use kumiki_sys::cpu::Features;

use crate::finding::{Finding, Topic};
use crate::host::Host;

const BARE: Topic = Topic {
    part: "measure",
    thing: "bare metal",
    consequence: "a hypervisor moves and stops the cpus: cross-core figures wander and are only \
                  comparable by the round trip recorded beside them; exits make some instructions \
                  slow",
};
const GOVERNOR: Topic = Topic {
    part: "measure",
    thing: "performance governor",
    consequence: "the clock rate follows the load, so short cases may be measured at a low one",
};
const BOOST: Topic = Topic {
    part: "measure",
    thing: "steady clock rate (boost off)",
    consequence: "the clock rate depends on temperature and on what other cores do, so runs \
                  differ more",
};
const ENERGY: Topic = Topic {
    part: "measure",
    thing: "energy counters",
    consequence: "joules are not reported; cpu time stands for them",
};

pub(super) fn findings(host: &Host) -> Vec<Finding> {
    vec![
        bare(Features::detect().hypervisor, host.read("/proc/stat")),
        governor(host),
        boost(host),
        energy(host),
    ]
}

fn bare(hypervisor: Option<String>, stat: Result<String, String>) -> Finding {
    let Some(name) = hypervisor else {
        return BARE.present("no hypervisor shows itself");
    };
    let steal = match stat.as_deref().map(steal_share) {
        Ok(Some(share)) => format!("{:.2} % of the time since boot was stolen", share * 100.0),
        Ok(None) => "stolen time is not reported".to_owned(),
        Err(reason) => format!("stolen time is not known: {reason}"),
    };
    BARE.limited(
        format!("hypervisor {name}; {steal}"),
        "prefer a machine of its own, or cpus pinned by the hypervisor",
    )
}

/// Share of all cpus' time that the hypervisor gave to others: the eighth
/// number of the first line of /proc/stat (Documentation/filesystems/proc.rst).
/// The ninth and tenth (guest) are counted in the first two already.
fn steal_share(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let steal = *ticks.get(7)?;
    let total: u64 = ticks.iter().take(8).sum();
    Some(steal as f64 / total.max(1) as f64)
}

fn governor(host: &Host) -> Finding {
    let dir = "/sys/devices/system/cpu";
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for name in host.names(dir) {
        if let Ok(governor) = host.read(&format!("{dir}/{name}/cpufreq/scaling_governor")) {
            *governors.entry(governor).or_default() += 1;
        }
    }
    let list = governors.iter().map(|(name, cpus)| format!("{name} on {cpus}"));
    let list = list.collect::<Vec<_>>().join(", ");
    match governors.keys().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => GOVERNOR.unknown("no cpufreq in sysfs: firmware or hypervisor sets the clock rate"),
        ["performance"] => GOVERNOR.present(list),
        _ => GOVERNOR.limited(list, "cpupower frequency-set -g performance"),
    }
}

fn boost(host: &Host) -> Finding {
    let read = |file: &str| host.read(&format!("/sys/devices/system/cpu/{file}")).ok();
    let boost = read("cpufreq/boost");
    let no_turbo = read("intel_pstate/no_turbo");
    match (boost.as_deref(), no_turbo.as_deref()) {
        (Some("0"), _) | (_, Some("1")) => BOOST.present("boost is off"),
        (Some("1"), _) => {
            BOOST.limited("boost is on", "echo 0 > /sys/devices/system/cpu/cpufreq/boost")
        }
        (_, Some("0")) => {
            BOOST.limited("turbo is on", "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo")
        }
        _ => BOOST.unknown("sysfs does not say: firmware or hypervisor decides"),
    }
}

/// RAPL by powercap (`intel-rapl:0/energy_uj`, AMD too) or a hwmon driver
/// (`energy1_input`).
fn energy(host: &Host) -> Finding {
    let powercap = "/sys/class/powercap";
    let hwmon = "/sys/class/hwmon";
    let domains = host.names(powercap).into_iter();
    let mut counters: Vec<String> =
        domains.map(|name| format!("{powercap}/{name}/energy_uj")).collect();
    for chip in host.names(hwmon) {
        let inputs = host.names(&format!("{hwmon}/{chip}")).into_iter();
        let inputs = inputs.filter(|name| name.starts_with("energy") && name.ends_with("_input"));
        counters.extend(inputs.map(|name| format!("{hwmon}/{chip}/{name}")));
    }
    counters.retain(|counter| host.exists(counter));
    let Some(first) = counters.first() else {
        return ENERGY.absent(
            "neither powercap nor hwmon offers one",
            "load intel_rapl_common or amd_energy on bare metal; virtual machines rarely have them",
        );
    };
    match host.number(first) {
        Ok(_) => ENERGY.present(format!("{} counters, e.g. {first}", counters.len())),
        // Root only since Linux 5.10 (CVE-2020-8694).
        Err(reason) => ENERGY.limited(reason, "run as root, or grant reading the file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;
    use crate::host::host_with;

    #[test]
    fn steal_is_a_share_of_all_time() {
        let stat = "cpu  50 10 20 100 5 3 2 10 40 0\ncpu0 1 2 3 4 5 6 7 8 9 0";
        assert_eq!(steal_share(stat), Some(0.05));
        assert_eq!(steal_share("cpu  50 10 20 100"), None);
        assert_eq!(steal_share("intr 5"), None);
        assert_eq!(steal_share("cpu  0 0 0 0 0 0 0 0"), Some(0.0));
    }

    #[test]
    fn a_hypervisor_limits() {
        let stat = || Ok("cpu  0 0 0 99 0 0 0 1 0 0".to_owned());
        let finding = bare(Some("KVM".to_owned()), stat());
        assert_eq!(finding.state, State::Limited);
        assert!(finding.detail.contains("KVM") && finding.detail.contains("1.00 %"));
        assert_eq!(bare(None, stat()).state, State::Present);
    }

    #[test]
    fn one_slow_governor_limits() {
        let file =
            |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        let (_dir, host) = host_with(&[(&file(0), "performance"), (&file(1), "powersave")]);
        let finding = governor(&host);
        assert_eq!(finding.state, State::Limited);
        assert_eq!(finding.detail, "performance on 1, powersave on 1");
        let (_dir, host) = host_with(&[(&file(0), "performance")]);
        assert_eq!(governor(&host).state, State::Present);
        let (_dir, host) = host_with(&[]);
        assert_eq!(governor(&host).state, State::Unknown);
    }

    #[test]
    fn both_drivers_switches_are_read() {
        for (file, value, state) in [
            ("cpufreq/boost", "0", State::Present),
            ("cpufreq/boost", "1", State::Limited),
            ("intel_pstate/no_turbo", "1", State::Present),
            ("intel_pstate/no_turbo", "0", State::Limited),
            ("online", "0", State::Unknown),
        ] {
            let (_dir, host) = host_with(&[(&format!("/sys/devices/system/cpu/{file}"), value)]);
            assert_eq!(boost(&host).state, state, "{file} {value}");
        }
    }

    #[test]
    fn energy_by_either_driver() {
        let (_dir, host) = host_with(&[
            ("/sys/class/powercap/intel-rapl/enabled", "1"),
            ("/sys/class/powercap/intel-rapl:0/energy_uj", "123456"),
        ]);
        assert_eq!(energy(&host).state, State::Present);
        let (_dir, host) = host_with(&[
            ("/sys/class/hwmon/hwmon0/temp1_input", "40000"),
            ("/sys/class/hwmon/hwmon1/energy1_input", "7"),
        ]);
        assert!(energy(&host).detail.contains("hwmon1/energy1_input"));
        let (_dir, host) = host_with(&[("/sys/class/hwmon/hwmon0/temp1_input", "40000")]);
        assert_eq!(energy(&host).state, State::Absent);
    }
}
