//! Processing threads: one that spins on each other cpu, for calls that are
//! soon over, and a pool of sleeping ones for calls that sleep. They start when
//! they are wanted and end by themselves.

mod caller;
mod dead;
mod pool;
mod process;
mod processor;
mod seat;
mod watch;

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use caller::Callers;
pub(crate) use dead::OWNER_DIED;
pub(crate) use pool::Pool;
pub(crate) use process::{process, unkillable};
pub(crate) use seat::Seat;
#[cfg(all(test, loom))]
pub(crate) use seat::{Entry, State};
pub(crate) use watch::Watch;

use kumiki_crew::with_signals_blocked;
use kumiki_slot::Life;
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::core::{Core, SLEEPING_LANE};
use crate::error::{Error, Result};

/// For so long no thread is asked for after the kernel has refused one. Asking in
/// vain takes tens of microseconds (a stack is mapped and unmapped), and whoever
/// does so wanted to save some.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts a thread of the engine, which runs on `cpus`: its starter may be bound
/// to one, and is busy there. Signals are blocked in it: they are for the
/// program's own threads, and a handler's `EINTR` for the caller's own call.
/// As long as it lives it holds `life`.
///
/// # Errors
/// [`Error::Thread`] if the kernel gives none, or has just given none.
fn start(
    core: &Arc<Core>,
    name: String,
    cpus: &CpuSet,
    life: &Arc<Life>,
    run: impl FnOnce(&Arc<Core>) + Send + 'static,
) -> Result<()> {
    let until = *lock(&core.no_thread_until);
    if until.is_some_and(|until| Instant::now() < until) {
        return Err(Error::Thread { source: io::ErrorKind::WouldBlock.into() });
    }
    // It gets this thread's filters.
    core.note_filter();
    let (shared, its, life) = (Arc::clone(core), cpus.clone(), Arc::clone(life));
    *lock(&core.alive) += 1;
    let body = move || {
        // Also when something in it panics.
        let _counted = Counted(&shared);
        let _held = life.hold();
        // Refused: then where it may run.
        let _ = affinity::request(None, &its);
        run(&shared);
    };
    let spawn = || Builder::new().name(name).spawn(body);
    let spawned = with_signals_blocked(|| affinity::reaching(cpus, spawn));
    // The handle is let go: a thread may be inside a call that never returns,
    // and whoever ends the engine must not wait for that.
    // It may stand behind its starter, who is busy: until its time slice ends.
    let move_on = |thread: JoinHandle<()>| {
        let _ = affinity::request_for(&thread, cpus);
    };
    spawned.map(move_on).map_err(|source| {
        drop(Counted(core));
        *lock(&core.no_thread_until) = Some(after(PAUSE));
        Error::Thread { source }
    })
}

/// One of [`Core::alive`].
struct Counted<'a>(&'a Core);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *lock(&self.0.alive) -= 1;
        self.0.ended.notify_all();
    }
}

/// What a thread does where it unwinds while it serves. Nothing of ours panics, and
/// the program's code is contained (`pending/task.rs`); should it come to that
/// after all, nobody must count on a thread for ever that is not there.
struct Unwinding<F: Fn()>(F);

impl<F: Fn()> Drop for Unwinding<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// A moment that far from now; one beyond what the clock can tell is never.
pub(crate) fn after(duration: Duration) -> Instant {
    /// Ten years.
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    Instant::now() + duration.min(NEVER)
}

/// Sees to it that `tasks` that have come from the queue into slots of open lane
/// `lane` are served.
pub(crate) fn serve_next(core: &Arc<Core>, lane: usize, tasks: usize) {
    if tasks > 0 && core.process.is_current() && !summon(core, lane, tasks) {
        // No other thread is left: the supervising thread makes the calls.
        core.watch.adopt(core);
    }
}

/// Sees to it that what waits in slots of the open lanes is served: by a thread
/// that goes, which others may have counted on.
fn serve_what_waits(core: &Arc<Core>) {
    for (lane, open) in core.open.iter().enumerate() {
        serve_next(core, lane, usize::from(open.ready.any()));
    }
}

/// Sees to it that some thread serves the requests of open lane `lane` that have
/// been placed before, `requests` of late. `false` if there is none to be had.
pub(crate) fn summon(core: &Arc<Core>, lane: usize, requests: usize) -> bool {
    if lane == SLEEPING_LANE {
        return Pool::summon(core, requests) || core.callers.call();
    }
    core.callers.call()
        || summon_seat(core)
        || {
            // With one cpu in all, a thread that spins would only be in the way.
            core.pool.rescue();
            Pool::summon(core, 1)
        }
        || (0..core.seats.len()).any(|at| Seat::wake(core, at))
}

/// Sees to it that a thread on another cpu serves the lane for calls that are
/// soon over. `false` if there is none, or it may be long at what it is at.
fn summon_seat(core: &Arc<Core>) -> bool {
    let near = core.near(rustix::thread::sched_getcpu());
    let hot = |at: &&usize| core.seats[**at].is_hot();
    let idle = near.iter().filter(hot).find(|at| !core.seats[**at].claim.is_set());
    if let Some(at) = idle.or_else(|| near.iter().find(hot)) {
        // Should its call block, somebody must see to this one.
        let watched = !core.seats[*at].claim.is_set() || core.watch.alert(core);
        // It may be about to sleep, or to retire.
        return watched && Seat::wake(core, *at);
    }
    near.iter().any(|at| Seat::wake(core, *at))
}

pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::Config;
    use crate::core::QUICK_LANE;
    use crate::pending::{Base, End, Task};

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
        let mut base = Base::new();
        base.request = crate::Request::new(9999, []);
        let task = Arc::new(Counted { base, breaks });
        let open = &core.open[QUICK_LANE];
        open.put(core.area.lane(QUICK_LANE), Arc::clone(&task) as _);
        call(core);
        task
    }

    #[test]
    fn a_thread_that_unwinds_leaves_its_place_to_another() {
        let by_seat = |core: &Arc<Core>| assert!(Seat::wake(core, 0));
        let by_pool = |core: &Arc<Core>| {
            core.pool.rescue();
            assert!(Pool::summon(core, 1));
        };
        let by_watch = |core: &Arc<Core>| core.watch.adopt(core);
        type Call = dyn Fn(&Arc<Core>);
        let ways: [(usize, usize, &Call); 3] =
            [(1, 0, &by_seat), (0, 1, &by_pool), (0, 0, &by_watch)];
        for (seats, threads, call) in ways {
            let cpus = std::iter::repeat_n(rustix::thread::sched_getcpu(), seats);
            let (cpus, retire) = (Some(cpus.collect()), Duration::ZERO);
            let config = Config { cpus, threads, retire, ..Config::default() };
            let core = Arc::new(Core::new(&config).unwrap());
            put(&core, true, call);
            until(|| *lock(&core.alive) == 0);
            let task = put(&core, false, call);
            until(|| task.base().ended().is_some());
            assert_eq!(task.base().ended(), Some(End::Returned(-i64::from(libc::ENOSYS))));
        }
    }

    fn until(is_true: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_true() {
            assert!(begin.elapsed() < Duration::from_secs(60), "never");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn after_a_refusal_no_thread_is_asked_for_for_a_while() {
        let core = Arc::new(Core::new(&crate::Config::default()).unwrap());
        let begins = || {
            let (tell, told) = mpsc::channel();
            let cpus = &core.cpus;
            start(&core, "parasc-test".to_owned(), cpus, &Arc::default(), move |_| {
                tell.send(()).unwrap()
            })?;
            told.recv().expect("the thread has begun");
            Ok::<_, Error>(())
        };
        begins().unwrap();
        *lock(&core.no_thread_until) = Some(after(Duration::from_secs(1000)));
        let error = begins().unwrap_err();
        assert!(matches!(error, Error::Thread { .. }), "{error}");
        *lock(&core.no_thread_until) = Some(Instant::now());
        begins().unwrap();
    }
}
