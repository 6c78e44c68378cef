//! Processing threads: one that spins on each other cpu, for calls that are
//! soon over, and a pool of sleeping ones for calls that sleep. They start when
//! they are wanted and end by themselves.

mod dead;
mod hand;
mod inside;
mod placed;
mod pool;
mod process;
mod processor;
mod queue;
mod seat;
mod watch;

use std::sync::Arc;

pub(crate) use placed::help;
pub(crate) use pool::summon as summon_pool;
pub(crate) use process::process;
pub(crate) use queue::{announce, cancel_all, send};

use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::life::Life;
use kumiki_wait::{Policy, Threshold};

use crate::core::Core;
use crate::queue::SLEEPING;

/// Makes sure that the thread of seat `index` sees what has been published before; `false` if there is none to be had.
pub(crate) fn wake_seat(core: &Arc<Core>, index: usize) -> bool {
    seat::wake(core, index, processor::thread)
}

/// Starts a thread of the engine, which runs on `cpus`: its starter may be bound to one,
/// and is busy there. Its signals are for the program's own threads, and a handler's
/// `EINTR` for the caller's own call. `false` if the kernel gives none, or has just given
/// none.
fn start(
    core: &Arc<Core>,
    name: String,
    cpus: &CpuSet,
    life: &Arc<Life>,
    run: impl FnOnce(&Arc<Core>) + Send + 'static,
) -> bool {
    // It gets this thread's filters.
    core.note_filter();
    let theirs = Arc::clone(core);
    core.crew.start(name, cpus, life, move || run(&theirs)).is_ok()
}

/// Says that there is something to watch. `false` if the kernel gives no thread for
/// it.
#[inline]
pub(crate) fn alert(core: &Arc<Core>) -> bool {
    let begin = || {
        let name = "parasc-watch".to_owned();
        start(core, name, &core.cpus, &core.watch.thread.life, watch::serve)
    };
    core.watch.is_alerted() || core.watch.begin(begin)
}

/// Has the supervising thread make the calls of waiting requests, as there is no other.
fn adopt_waiting(core: &Arc<Core>) {
    core.watch.adopt();
    alert(core);
}

/// Sees to it that what waits in the queues is served: by a thread that goes, which others
/// may have counted on.
fn serve_what_waits(core: &Arc<Core>) {
    for queue in 0..core.queues.len() {
        if core.waits(queue) && core.process.is_current() && !summon(core, queue) {
            // No other thread is left: the supervising thread makes the calls.
            adopt_waiting(core);
        }
    }
}

/// Sees to it that some thread serves a request of a queue that has been placed before.
/// `false` if there is none to be had.
pub(crate) fn summon(core: &Arc<Core>, queue: usize) -> bool {
    if queue == SLEEPING {
        return pool::summon(core, 1) || core.callers.call(1) > 0;
    }
    core.callers.call(1) > 0
        || summon_seat(core)
        || {
            // With one cpu in all, a thread that spins would only be in the way.
            core.pool.rescue();
            pool::summon(core, 1)
        }
        || (0..core.seats.len()).any(|at| wake_seat(core, at))
}

/// Sees to it that a thread on another cpu serves the queue for calls that are
/// soon over. `false` if there is none, or it may be long at what it is at.
fn summon_seat(core: &Arc<Core>) -> bool {
    let near = core.near(rustix::thread::sched_getcpu());
    let hot = |at: &&usize| core.seats[**at].is_hot();
    let idle = near.iter().filter(hot).find(|at| !core.seats[**at].thread.claim.is_set());
    if let Some(at) = idle.or_else(|| near.iter().find(hot)) {
        // Should its call block, somebody must see to this one.
        // One that serves inside the kernel has no note.
        let noted = core.inside.is_none() && !core.seats[*at].thread.claim.is_set();
        let watched = noted || alert(core);
        // It may be about to sleep, or to retire.
        return watched && wake_seat(core, *at);
    }
    near.iter().any(|at| wake_seat(core, *at))
}

/// Policy of a thread that spins. What it would learn from its own waits is wrong: a requesting
/// thread wakes it rarely, and goes on until it has come. Such long waits would teach it to sleep
/// at once, so that it is asleep again when the next batch comes, and is woken rarely. That is
/// stable, and all batches are slow in it. So it always spins for as long as a waiter spins at
/// most.
fn spinning(chosen: Policy) -> Policy {
    match chosen.threshold {
        Threshold::Adaptive => {
            let bound = kumiki_wait::sleep_cost_ticks().saturating_mul(2);
            Policy { threshold: Threshold::Ticks(bound), ..chosen }
        }
        _ => chosen,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use kumiki_sys::affinity;

    use super::*;
    use crate::Config;
    use crate::queue::QUICK;
    use crate::task::{Base, Task, TaskEnd};

    /// A task that breaks the thread that is to end it, or none.
    #[derive(Debug)]
    struct Counted {
        base: Base,
        breaks: bool,
    }

    impl Task for Counted {
        fn base(&self) -> &Base {
            let of_the_engine = thread::current().name().is_some_and(|it| it.starts_with("parasc"));
            assert!(!self.breaks || !of_the_engine, "as no code of ours does");
            &self.base
        }
    }

    /// Has call number 9999, which there is not, made by a thread that `call` calls.
    fn put(core: &Arc<Core>, breaks: bool, call: impl Fn(&Arc<Core>)) -> Arc<Counted> {
        let base = Base::of(crate::Request::new(9999, []));
        let task = Arc::new(Counted { base, breaks });
        core.queues[QUICK].push(Arc::clone(&task) as _);
        call(core);
        task
    }

    #[test]
    fn a_thread_that_unwinds_leaves_its_place_to_another() {
        let by_seat = |core: &Arc<Core>| assert!(wake_seat(core, 0));
        let by_pool = |core: &Arc<Core>| {
            core.pool.rescue();
            assert!(pool::summon(core, 1));
        };
        let by_watch = |core: &Arc<Core>| adopt_waiting(core);
        type Call = dyn Fn(&Arc<Core>);
        let ways: [(usize, usize, &Call); 3] =
            [(1, 0, &by_seat), (0, 1, &by_pool), (0, 0, &by_watch)];
        for (seats, threads, call) in ways {
            let cpus = std::iter::repeat_n(rustix::thread::sched_getcpu(), seats);
            let (cpus, retire) = (Some(cpus.collect()), Duration::ZERO);
            let config = Config { cpus, threads, retire, ..Config::default() };
            let core = Arc::new(Core::new(&config).unwrap());
            put(&core, true, call);
            until(|| core.crew.alive() == 0);
            let task = put(&core, false, call);
            until(|| task.base().ended().is_some());
            assert_eq!(task.base().ended(), Some(TaskEnd::Returned(-i64::from(libc::ENOSYS))));
        }
    }

    #[test]
    fn a_thread_of_an_engine_without_cpus_runs_where_its_bound_starter_may_not() {
        let all = crate::config::allowed().unwrap();
        let seen = thread::spawn(|| {
            let _bound = affinity::bind(rustix::thread::sched_getcpu()).unwrap();
            let config = Config { cpus: Some(CpuSet::new()), ..Config::default() };
            let core = Arc::new(Core::new(&config).unwrap());
            assert!(core.seats.is_empty());
            let (tell, told) = std::sync::mpsc::channel();
            let run = move |_: &Arc<Core>| tell.send(affinity::current().unwrap()).unwrap();
            assert!(start(&core, "parasc-test".to_owned(), &core.cpus, &Arc::default(), run));
            told.recv().unwrap()
        });
        assert_eq!(seen.join().unwrap(), all);
    }

    #[test]
    fn a_threshold_that_adapts_is_fixed_for_who_spins() {
        let bound = Threshold::Ticks(2 * kumiki_wait::sleep_cost_ticks());
        assert_eq!(spinning(Policy::default()).threshold, bound);
        for threshold in [Threshold::Ticks(7), Threshold::Infinite] {
            let chosen = Policy { threshold, ..Policy::default() };
            assert_eq!(spinning(chosen), chosen);
        }
    }

    fn until(is_true: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_true() {
            assert!(begin.elapsed() < Duration::from_secs(60), "never");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
