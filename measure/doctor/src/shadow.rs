//! The cpus that a shadow thread and its main thread share.

use kumiki_sys::affinity;
use kumiki_sys::cpu::Features;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::Topology;

use crate::finding::{Finding, Topic};
use crate::host::Host;

const ALLOWED: Topic = Topic {
    part: "shadow",
    thing: "two allowed cpus",
    consequence: "with one cpu a helper and its main thread take turns: fork, parallel copy and \
                  processing threads gain nothing, and cross-core cases are skipped",
};
const SMT: Topic = Topic {
    part: "shadow",
    thing: "SMT siblings",
    consequence: "a shadow thread sits on another core, so that a fork crosses the caches \
                  instead of staying within one core",
};

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let topology = Topology::read_from(&host.path("/sys/devices/system"));
    let topology = topology.map_err(|error| error.to_string());
    let allowed = affinity::current().map_err(|error| error.to_string());
    vec![
        match &allowed {
            Ok(allowed) => count(allowed),
            Err(reason) => ALLOWED.unknown(reason),
        },
        match (&topology, &allowed) {
            (Ok(topology), Ok(allowed)) => {
                smt(topology, allowed, Features::detect().hypervisor.is_some())
            }
            (Err(reason), _) | (_, Err(reason)) => SMT.unknown(reason),
        },
    ]
}

fn count(allowed: &CpuSet) -> Finding {
    match allowed.len() {
        0 | 1 => ALLOWED.limited(
            format!("only cpu {allowed}"),
            "allow more: taskset, the cgroup's cpuset.cpus, `docker run --cpuset-cpus`, or give \
             the virtual machine more cpus",
        ),
        n => ALLOWED.present(format!("{n} cpus: {allowed}")),
    }
}

fn smt(topology: &Topology, allowed: &CpuSet, virtual_machine: bool) -> Finding {
    let mut allowed_cpus = allowed.iter();
    if let Some((cpu, sibling)) =
        allowed_cpus.find_map(|cpu| Some((cpu, topology.sibling(cpu, allowed)?)))
    {
        let threads = topology.threads_per_core();
        return SMT
            .present(format!("{threads} hardware threads a core, e.g. cpus {cpu} and {sibling}"));
    }
    if topology.threads_per_core() > 1 {
        return SMT.limited(
            format!("cores have them, but no two of the allowed cpus {allowed} share one"),
            "allow both cpus of a core (/sys/devices/system/cpu/cpu*/topology/core_cpus_list)",
        );
    }
    if virtual_machine {
        SMT.absent(
            "every cpu is shown as a core of its own; a virtual machine may hide the truth",
            "have the virtual machine's topology show the hardware threads, and pin its cpus",
        )
    } else {
        SMT.absent(
            "every cpu is a core of its own",
            "switch SMT on in the firmware or /sys/devices/system/cpu/smt/control, if the \
             processor has it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;
    use crate::host::host_with;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn siblings_must_both_be_allowed() {
        let (_dir, host) = host_with(&[
            ("cpu/online", "0-3"),
            ("cpu/cpu0/topology/core_cpus_list", "0,2"),
            ("cpu/cpu1/topology/core_cpus_list", "1,3"),
            ("cpu/cpu2/topology/core_cpus_list", "0,2"),
            ("cpu/cpu3/topology/core_cpus_list", "1,3"),
        ]);
        let topology = Topology::read_from(&host.path("/")).unwrap();
        let both = smt(&topology, &set("0-2"), false);
        assert_eq!(both.state, State::Present);
        assert!(both.detail.contains("cpus 0 and 2"), "{}", both.detail);
        assert_eq!(smt(&topology, &set("0-1"), false).state, State::Limited);
    }

    #[test]
    fn a_core_each_is_absent_with_a_fitting_remedy() {
        let (_dir, host) = host_with(&[("cpu/online", "0-1")]);
        let topology = Topology::read_from(&host.path("/")).unwrap();
        for (virtual_machine, word) in [(true, "virtual machine"), (false, "firmware")] {
            let finding = smt(&topology, &set("0-1"), virtual_machine);
            assert_eq!(finding.state, State::Absent);
            assert!(finding.remedy.unwrap().contains(word));
        }
    }

    #[test]
    fn one_cpu_is_too_few() {
        assert_eq!(count(&set("5")).state, State::Limited);
        assert_eq!(count(&set("5,9")).state, State::Present);
    }
}
