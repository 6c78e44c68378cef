//! What a wait rests on.

use kumiki_sys::cpu::Features;
use rustix::thread::{MembarrierQuery, membarrier_query};

use crate::finding::{Finding, Topic};
use crate::host::Host;

const MONITOR: Topic = Topic {
    part: "wait",
    thing: "UMWAIT or MWAITX",
    consequence: "a waiting thread cannot rest in user mode: it spins, then sleeps in the kernel",
};
const MEMBARRIER: Topic = Topic {
    part: "wait",
    thing: "private expedited membarrier",
    consequence: "the waker must order its store by a locked instruction, which makes each fork \
                  some 100 ns dearer",
};

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let features = Features::detect();
    let umwait = host.read("/sys/devices/system/cpu/umwait_control/max_time");
    vec![
        monitor(
            (features.waitpkg, features.monitorx),
            features.monitor && host.exists("/dev/kumiki-mwait"),
            umwait.ok().as_deref(),
        ),
        membarrier(membarrier_query()),
    ]
}

/// Intel has the one, AMD the other. `max_time` is in TSC ticks, 0 for no limit
/// (arch/x86/kernel/cpu/umwait.c).
fn monitor((waitpkg, monitorx): (bool, bool), module: bool, max_time: Option<&str>) -> Finding {
    match (waitpkg, max_time.map(str::trim)) {
        (true, None) => MONITOR.present("UMWAIT (WAITPKG)"),
        (true, Some("0")) => MONITOR.present("UMWAIT; a wait may last as long as it likes"),
        (true, Some(ticks)) => {
            MONITOR.present(format!("UMWAIT; the kernel ends a wait after {ticks} TSC ticks"))
        }
        (false, _) if monitorx => MONITOR.present("MWAITX (MONITORX)"),
        (false, _) if module => {
            MONITOR.present("neither, but MWAIT in the kernel, by the module parasc")
        }
        (false, _) => MONITOR.lacking(
            "the processor, or the hypervisor's picture of it, has neither WAITPKG (CPUID 7 ECX \
             bit 5) nor MONITORX (8000_0001h ECX bit 29)",
        ),
    }
}

fn membarrier(commands: MembarrierQuery) -> Finding {
    if commands.contains(MembarrierQuery::PRIVATE_EXPEDITED) {
        MEMBARRIER.present("the kernel offers it")
    } else if commands.is_empty() {
        MEMBARRIER.absent(
            "membarrier is missing or filtered",
            "a kernel with CONFIG_MEMBARRIER; a seccomp profile that allows membarrier",
        )
    } else {
        MEMBARRIER.absent("only the slow kinds are there", "Linux 4.14 or newer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;

    #[test]
    fn one_way_to_rest_is_enough() {
        assert_eq!(monitor((false, false), false, Some("100000")).state, State::Absent);
        assert_eq!(monitor((false, true), true, None).detail, "MWAITX (MONITORX)");
        assert!(monitor((false, false), true, None).detail.contains("module"));
        assert!(
            monitor((true, false), false, Some("100000\n")).detail.contains("100000 TSC ticks")
        );
        assert!(monitor((true, true), false, Some("0")).detail.contains("as long as it likes"));
    }

    #[test]
    fn membarrier_by_what_is_offered() {
        let all = MembarrierQuery::PRIVATE_EXPEDITED | MembarrierQuery::GLOBAL;
        assert_eq!(membarrier(all).state, State::Present);
        assert!(membarrier(MembarrierQuery::GLOBAL).detail.contains("slow"));
        assert!(membarrier(MembarrierQuery::empty()).detail.contains("missing"));
    }
}
