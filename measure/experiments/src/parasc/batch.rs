//! Calls made one after the other, and the same calls as a batch.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_measure::case::Workload;
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_parasc::op::{Errno, Raw};
use kumiki_parasc::{Config, CpuSet, Operation, Policy, Threshold};
use kumiki_sys::affinity;

use super::alone::Alone;
use super::errors::refused;
use super::running::Running;
use crate::timed;

/// A requesting thread learns which way is the fastest. Batches before the first
/// sample: at least so many, then until one of the two is reached.
const LEARN_AT_LEAST: u32 = 8;
const LEARN: u32 = 300;
const LEARN_FOR: Duration = Duration::from_millis(4);
/// Batches before each sample: processing threads may have gone to sleep.
const AWAKE: u32 = 2;
/// Time a thread may take until it serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// A number of calls.
pub(super) trait Calls {
    /// True if there is something to [`prepare`](Self::prepare).
    const PREPARED: bool = false;

    /// Prepares the calls each time, not timed.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes them by the calling thread, one after the other.
    fn plain(&mut self) -> Result<()>;

    /// Makes them as requests.
    fn batch(&mut self, running: &mut Running) -> Result<()>;
}

/// Makes the calls of `operations`; what each gives goes to `each`. One alone is made as a
/// program would make it, and handed over where threads make all calls.
///
/// # Errors
/// The first of the calls', when `each` has had the others'.
pub(super) fn make<O, T>(
    running: &mut Running,
    operations: &mut [O],
    mut each: impl FnMut(T),
) -> Result<()>
where
    O: Operation<Output = Result<T, Errno>>,
{
    let mut all = Ok(());
    let mut take = |output| match output {
        Ok(given) => each(given),
        Err(errno) if all.is_ok() => all = Err(Error::os("a parallel system call", errno)),
        Err(_) => {}
    };
    let Running { requester, helps, alone, .. } = running;
    if let Some(alone) = alone {
        alone.run(operations)?.into_iter().for_each(take);
        return all;
    }
    match operations {
        [one] if *helps => take(requester.call(one).map_err(refused)?),
        all => requester.run(all).map_err(refused)?.into_iter().for_each(take),
    }
    all
}

/// The calls one after the other.
pub(super) struct Plain<C>(pub(super) C);

impl<C: Calls> Workload for Plain<C> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        sample(&mut self.0, iterations, meter, C::plain)
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        overhead::<C>(iterations, meter)
    }
}

/// The calls as requests.
pub(super) struct Batches<C> {
    calls: C,
    /// Threads that serve, beside the engine's own: ended before it.
    own: Vec<JoinHandle<()>>,
    running: Running,
}

impl<C: Calls> Batches<C> {
    pub(super) fn new(calls: C, config: &Config) -> Result<Self> {
        Batches { calls, own: Vec::new(), running: Running::new(config)? }.learnt()
    }

    /// Makes batches by the calling thread alone, whatever the engine would do.
    pub(super) fn alone(calls: C, alone: Alone) -> Result<Self> {
        let config = Config { cpus: Some(CpuSet::new()), threads: 0, ..Config::default() };
        let mut running = Running::new(&config)?;
        running.alone = Some(alone);
        Batches { calls, own: Vec::new(), running }.learnt()
    }

    /// The mechanism as the paper has it: a thread on each of `cpus` that never sleeps, and
    /// a requesting thread that makes no call itself. There is nothing to choose.
    pub(super) fn by_threads_alone(calls: C, cpus: &CpuSet, gettid: Raw) -> Result<Self> {
        let policy = Policy { threshold: Threshold::Infinite, ..crate::chosen() };
        let none = CpuSet::new();
        let config =
            Config { cpus: Some(none), threads: 0, help: false, policy, ..Config::default() };
        let config = Config { wrong_thread_answers: true, ..config };
        let running = Running::new(&config)?;
        let mut batches = Batches { calls, own: Vec::new(), running };
        for cpu in cpus.iter() {
            let engine = Arc::clone(&batches.running.engine);
            let serve = move || {
                // Refused: then wherever it is.
                let _bound = affinity::bind(cpu);
                engine.process();
            };
            let thread = Builder::new().name("processing".to_owned()).spawn(serve);
            let failed = |error| Error::Invalid(format!("no thread that processes: {error}"));
            batches.own.push(thread.map_err(failed)?);
        }
        // Until one serves the requesting thread makes calls itself: there is nobody else.
        let own = i64::from(rustix::thread::gettid().as_raw_nonzero().get());
        let give_up = Instant::now() + PATIENCE;
        let mut probe = [gettid];
        loop {
            let made = batches.running.requester.run(&mut probe);
            if made.map_err(refused)? != [own] {
                return batches.learnt();
            }
            if Instant::now() >= give_up {
                return Err(Error::Invalid(format!("no thread processes within {PATIENCE:?}")));
            }
        }
    }

    fn learnt(mut self) -> Result<Self> {
        let batches = &mut self;
        let enough = Instant::now() + LEARN_FOR;
        for made in 0..LEARN {
            if made >= LEARN_AT_LEAST && Instant::now() >= enough {
                break;
            }
            batches.calls.prepare()?;
            batches.calls.batch(&mut batches.running)?;
        }
        Ok(self)
    }
}

impl<C> Drop for Batches<C> {
    fn drop(&mut self) {
        if !self.own.is_empty() {
            self.running.engine.shut_down_timeout(Duration::ZERO);
        }
        self.own.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl<C: Calls> Workload for Batches<C> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let Batches { calls, running, .. } = self;
        if !C::PREPARED {
            (0..AWAKE).try_for_each(|_| calls.batch(running))?;
        }
        sample(calls, iterations, meter, |calls| calls.batch(running))
    }

    fn overhead(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        overhead::<C>(iterations, meter)
    }
}

fn sample<C: Calls>(
    calls: &mut C,
    iterations: u64,
    meter: &Meter,
    mut all: impl FnMut(&mut C) -> Result<()>,
) -> Result<Sample> {
    if C::PREPARED {
        return timed::one_by_one(iterations, || {
            calls.prepare()?;
            meter.time(|| all(calls))
        });
    }
    meter.time(|| (0..iterations).try_for_each(|_| all(calls)))
}

fn overhead<C: Calls>(iterations: u64, meter: &Meter) -> Result<Sample> {
    if C::PREPARED {
        return timed::nothing(iterations, meter);
    }
    meter.time(|| {
        for iteration in 0..iterations {
            std::hint::black_box(iteration);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::unchecked::gettid;
    use super::*;

    /// Calls that say who makes them.
    struct Whose(Vec<Raw>, Vec<i64>);

    impl Calls for Whose {
        fn plain(&mut self) -> Result<()> {
            Ok(())
        }

        fn batch(&mut self, running: &mut Running) -> Result<()> {
            self.1 = running.requester.run(&mut self.0).map_err(refused)?;
            Ok(())
        }
    }

    /// However few there are: where plain calls are faster, the figure is to show it.
    #[test]
    fn by_mechanism_each_call_is_made_by_another_thread() {
        let own = i64::from(rustix::thread::gettid().as_raw_nonzero().get());
        let cpus = affinity::current().unwrap().iter().take(1).collect();
        for count in [1, 2, 5, 40] {
            let calls = Whose((0..count).map(|_| gettid()).collect(), Vec::new());
            let batches = Batches::by_threads_alone(calls, &cpus, gettid()).unwrap();
            assert_eq!(batches.calls.1.len(), count);
            assert!(
                batches.calls.1.iter().all(|id| *id > 0 && *id != own),
                "{:?}",
                batches.calls.1
            );
        }
    }

    #[test]
    fn one_operation_goes_where_the_engine_has_it_go() {
        let cpus: CpuSet = affinity::current().unwrap().iter().take(1).collect();
        let own = rustix::thread::gettid();
        let mine = format!("/task/{}/", own.as_raw_nonzero());
        let maker = |helps: bool| {
            let config = Config { cpus: Some(cpus.clone()), help: helps, ..Config::default() };
            let mut running = Running::new(&config).unwrap();
            let path = c"/proc/thread-self/comm";
            let flags = rustix::fs::OFlags::RDONLY;
            let begin = Instant::now();
            loop {
                let mode = rustix::fs::Mode::empty();
                let open = kumiki_parasc::op::Openat::new(rustix::fs::CWD, path, flags, mode);
                let mut target = None;
                make(&mut running, &mut [open], |file: std::os::fd::OwnedFd| target = Some(file))
                    .unwrap();
                let file = target.unwrap();
                let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
                let made = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
                let made = made.to_string_lossy().into_owned();
                // Until the engine's thread serves there is nobody else.
                if helps || !made.contains(&mine) || begin.elapsed() > PATIENCE {
                    return made;
                }
            }
        };
        assert!(maker(true).contains(&mine));
        assert!(!maker(false).contains(&mine));
    }
}
