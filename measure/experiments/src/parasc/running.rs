//! An engine for the time of a visit.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use kumiki_measure::case::Place;
use kumiki_measure::{Error, Result};
use kumiki_parasc::{Config, Engine, Requester};
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::Topology;

use super::alone::Alone;
use super::errors::refused;
use crate::partner;

/// Time threads that have ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// An engine, and a lane in it for the calling thread.
pub(super) struct Running {
    pub(super) requester: Requester,
    pub(super) engine: Arc<Engine>,
    /// True if the requesting thread makes calls, too.
    pub(super) helps: bool,
    /// Mechanism in place of the engine.
    pub(super) alone: Option<Alone>,
    _gone: ThreadsGone,
}

impl Running {
    pub(super) fn new(config: &Config) -> Result<Self> {
        Running::beside(ThreadsGone::then(), config)
    }

    /// Starts an engine for a caller that has counted the threads already.
    pub(super) fn beside(gone: ThreadsGone, config: &Config) -> Result<Self> {
        let engine = Arc::new(Engine::new(config).map_err(refused)?);
        let requester = engine.requester().map_err(refused)?;
        Ok(Running { requester, engine, helps: config.help, alone: None, _gone: gone })
    }
}

/// Waits on drop until the process has no more threads than when this was made.
/// A processing thread tells its engine that it ends, and then still has to
/// leave the kernel, at the expense of whoever measures next.
pub(super) struct ThreadsGone {
    threads: usize,
}

impl ThreadsGone {
    pub(super) fn then() -> Self {
        ThreadsGone { threads: threads() }
    }
}

impl Drop for ThreadsGone {
    fn drop(&mut self) {
        let give_up = Instant::now() + PATIENCE;
        while threads() > self.threads && Instant::now() < give_up {
            thread::yield_now();
        }
    }
}

/// Threads of this process; 0 if nobody can tell.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// `count` cpus for processing threads: the place's partner, then the nearest
/// of `allowed`.
pub(super) fn cpus(place: &Place, allowed: &CpuSet, count: usize) -> Result<CpuSet> {
    let partner = partner(place)?;
    let mut cpus = CpuSet::from_iter([partner]);
    if count > 1 {
        let topology = Topology::read()?;
        let mut left = allowed.difference(&CpuSet::from_iter([place.cpu, partner]));
        while cpus.len() < count {
            let next = topology.nearest(place.cpu, &left).ok_or_else(|| lacking(count))?;
            left.remove(next);
            cpus.insert(next);
        }
    }
    Ok(cpus)
}

fn lacking(threads: usize) -> Error {
    let needs = format!("allow at least {} cpus (taskset, cgroup cpuset)", threads + 1);
    Error::unsupported(format!("a cpu for each of {threads} processing threads"), needs)
}
