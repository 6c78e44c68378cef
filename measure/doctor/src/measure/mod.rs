//! What a figure needs to be worth something, and what single cases need.

mod cgroup;
mod limits;
mod memory;
mod platform;

use kumiki_sys::clock::tsc_verdict;

use crate::finding::{Finding, Topic};
use crate::host::Host;

const TSC: Topic = Topic {
    part: "measure",
    thing: "trusted TSC",
    consequence: "intervals are read from CLOCK_MONOTONIC_RAW, which costs more a read and may \
                  be coarser",
};
const PROC: Topic = Topic {
    part: "measure",
    thing: "/proc",
    consequence: "faults, switches, interrupts and steal around a case cannot be read, so no case \
                  can be called undisturbed",
};

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let groups = [cgroup::findings, platform::findings, memory::findings, limits::findings];
    let mut findings: Vec<_> = groups.iter().flat_map(|group| group(host)).collect();
    findings.push(match tsc_verdict() {
        Ok(()) => TSC.present("invariant, and the kernel still trusts it"),
        Err(reason) => TSC.lacking(reason),
    });
    findings.push(match host.exists("/proc/self/status") {
        true => PROC.present("mounted"),
        false => PROC.absent("not mounted", "mount -t proc proc /proc"),
    });
    findings
}
