//! What a sleep costs here, learnt such that the engine can use it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Builder;

use kumiki_crew::with_signals_blocked;
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::config;

/// Cost of a sleep, ticks. Measured at the first call in a process, by a thread
/// that may run on `cpus` and wherever the program's own threads may: by one that is
/// bound to one cpu, as a requesting thread often is, it would be that of a wake there.
/// Whoever needs the cost asks here first.
pub(crate) fn sleep_ticks(cpus: &CpuSet) -> u64 {
    static LEARNT: AtomicBool = AtomicBool::new(false);
    // Two that come first at the same time both have it measured. No lock: it could
    // be left closed in the child of a fork(2).
    if !LEARNT.load(Relaxed) {
        learn(cpus);
        LEARNT.store(true, Relaxed);
    }
    kumiki_wait::sleep_cost_ticks()
}

fn learn(cpus: &CpuSet) {
    let cpus = around(cpus);
    let measure = move || {
        // Refused, or no cpu: then as far as this thread may go.
        let _ = affinity::set(&cpus);
        kumiki_wait::sleep_cost_ticks();
    };
    // No handler of the program's runs in this thread, nor in that which it starts.
    let spawned = with_signals_blocked(|| {
        let spawned = Builder::new().name("parasc-cost".to_owned()).spawn(measure);
        if spawned.is_err() {
            kumiki_wait::sleep_cost_ticks();
        }
        spawned
    });
    // Its panic would not be the engine's.
    let _ = spawned.map(|thread| thread.join());
}

/// The cpus between which threads of the engine and the program's wake each other.
fn around(cpus: &CpuSet) -> CpuSet {
    let allowed = config::allowed().unwrap_or_default();
    cpus.iter().chain(allowed.iter()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_thread_has_it_measured_between_all_cpus() {
        let all = config::allowed().unwrap();
        let first = CpuSet::from_iter(all.first());
        let bound = std::thread::scope(|scope| {
            let bound = || {
                affinity::set(&first).unwrap();
                // Of an engine without threads of its own, and with one.
                [around(&CpuSet::new()), around(&first)]
            };
            scope.spawn(bound).join().unwrap()
        });
        assert_eq!(bound, [all.clone(), all]);
    }
}
