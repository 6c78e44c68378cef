//! What the threads of one engine share: data, and who is there. What they do with it
//! stands in `threads`, above.

mod callers;
mod crew;
mod doorbell;
#[cfg(all(test, loom))]
mod loom;
mod pool;
mod post;
mod reserve;
mod seat;
mod watch;

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) use callers::{Callers, ProgramThread};
pub(crate) use crew::{Crew, Unwinding};
pub(crate) use doorbell::Doorbell;
pub(crate) use pool::Pool;
pub(crate) use post::PostState;
pub(crate) use seat::CpuSeat;
pub(crate) use watch::Watch;

use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::fork::Process;
use kumiki_sys::life::Life;
use kumiki_sys::topology::Topology;
use kumiki_wait::Policy;

use crate::area::{Area, PLACED};
use crate::backend::Inside;
use crate::claim::Claim;
use crate::config::{self, Config};
use crate::cost::{Durations, sleep_ticks};
use crate::error::{Error, Result};
use crate::execute::Rules;
use crate::line::Line;
use crate::placed::Placed;
use crate::queue::{QUEUES, QUICK, Queue, SLEEPING};
use crate::side::Side;
use crate::task::Base;
use kumiki_calls::Request;

/// Time after which a wait for a result looks whether its thread still lives.
pub(crate) const STEP: Duration = Duration::from_millis(50);
/// Time after which it looks where only threads of the engine's own are, and are at it: a filter
/// may have killed one.
pub(crate) const RARE: Duration = Duration::from_secs(1);
/// Cpus whose nearest seats are remembered.
const NEAR: usize = 1024;
/// Generation before those of the next engine's slots, which are not to be those of another one: a
/// ticket shows then that it is of another engine.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Distance from one engine's generations to the next's: in the golden ratio, of any thousand
/// engines in a row two are at least a million apart (Knuth, The Art of Computer Programming, 6.4).
const FAR: u32 = 0x9e37_79b9;

/// State of a thread of the engine's own that outlives it.
#[derive(Debug, Default)]
pub(crate) struct ThreadInfo {
    pub(crate) life: Arc<Life>,
    pub(crate) claim: Claim,
}

// Two neighbours in a table of these are written by two threads.
#[cfg(not(loom))]
const _: () = {
    use kumiki_sys::cache::LINE;
    assert!(align_of::<Claim>() == LINE && align_of::<Side>() == LINE);
    assert!(align_of::<CpuSeat>() == LINE);
};

/// One engine.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) area: Area,
    pub(crate) sides: Vec<Side>,
    pub(crate) rules: Rules,
    /// Cpus of its threads: those that were chosen, or of none all that are allowed.
    pub(crate) cpus: CpuSet,
    /// Number of cpus on which its threads and those of the program may run.
    pub(crate) parallel: usize,
    /// Threads that may run at the same time by the quota of a control group.
    pub(crate) quota: usize,
    /// A processing thread for each cpu, in rising order of cpus.
    pub(crate) seats: Vec<CpuSeat>,
    /// Processing threads for calls that sleep.
    pub(crate) pool: Pool,
    /// Processing threads of the program.
    pub(crate) callers: Callers,
    pub(crate) watch: Watch,
    /// Requests of any threads.
    pub(crate) queues: [Queue; QUEUES],
    /// Requests that were placed by hand.
    pub(crate) placed: Placed,
    /// State of a waiting thread that makes some of their calls.
    pub(crate) helper: ThreadInfo,
    /// A seccomp filter looks at the calls of one of its threads.
    pub(crate) filtered: AtomicBool,
    pub(crate) durations: Durations,
    /// Seats on other cpus, for each cpu, the nearest first.
    near: Box<[OnceLock<Box<[usize]>>]>,
    pub(crate) process: Process,
    pub(crate) policy: Policy,
    pub(crate) retire: Duration,
    pub(crate) help: bool,
    /// The kernel module, where that is the backend.
    pub(crate) inside: Option<Inside>,
    /// Threads of its own that have started and not ended.
    pub(crate) crew: Arc<Crew>,
    topology: OnceLock<Option<Topology>>,
}

impl Core {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        config.check()?;
        let inside = config.backend.inside()?;
        let cpus = config.cpus()?;
        let parallel = cpus.len().max(config::allowed()?.len());
        let rules = Rules::new(config.allow, config.wrong_thread_answers);
        let generation = GENERATION.fetch_add(FAR, Relaxed);
        // Which calls are for threads that sleep: a question where there are none.
        let long = if cpus.is_empty() && config.threads == 0 { 0 } else { sleep_ticks(&cpus) };
        let (area, placed) = (Area::default(), Placed::new(config.slots, generation));
        // They stay where they are, and are claimed one by one: each may block.
        area.line(PLACED).open(placed.calls(), 0, 1);
        let seats = cpus.iter().enumerate().map(CpuSeat::new).collect();
        // Their starter may be bound to one cpu, and is busy there.
        let cpus = if cpus.is_empty() { config::allowed()? } else { cpus };
        Ok(Core {
            area,
            sides: (0..config.requesters).map(|_| Side::default()).collect(),
            rules,
            seats,
            cpus,
            parallel,
            quota: kumiki_sys::quota::threads().unwrap_or(usize::MAX),
            pool: Pool::new(config.threads),
            callers: Callers::default(),
            watch: Watch::default(),
            queues: Default::default(),
            placed,
            helper: ThreadInfo::default(),
            filtered: AtomicBool::new(false),
            durations: Durations::new(long),
            near: (0..NEAR).map(|_| OnceLock::new()).collect(),
            process: Process::current()?,
            policy: config.policy,
            retire: config.retire,
            help: config.help,
            inside,
            crew: Arc::default(),
            topology: OnceLock::new(),
        })
    }

    /// Among how many a batch of calls that are soon over is parted at most.
    #[inline(always)]
    pub(crate) fn share(&self) -> usize {
        let threads = self.seats.len() + self.callers.count();
        threads.min(self.parallel).max(2)
    }

    /// Number of the program's threads that have a cpu to spin on: not a requesting thread's, nor
    /// one of a thread of the engine's own.
    pub(crate) fn spare_cpus(&self) -> usize {
        let taken = self.seats.iter().filter(|seat| seat.post.is_taken()).count();
        (self.parallel - 1).saturating_sub(taken)
    }

    /// Threads that are the engine's own.
    fn thread_infos(&self) -> impl Iterator<Item = &ThreadInfo> {
        let seats = self.seats.iter().map(|seat| &seat.thread);
        seats.chain(&self.pool.thread_infos).chain([&self.watch.thread, &self.helper])
    }

    /// Their notes.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.thread_infos().map(|thread| &thread.claim)
    }

    /// Notes the filter of a thread that will make requests of others, or starts one that will.
    pub(crate) fn note_filter(&self) {
        if kumiki_sys::seccomp::is_filtered() != Some(false) {
            self.filtered.store(true, Release);
        }
    }

    /// Relations of the cpus, if they are known. Read once: a requesting thread asks each time it
    /// finds itself on another cpu, and sysfs takes milliseconds.
    pub(crate) fn topology(&self) -> Option<&Topology> {
        // Another thread may have been at it at a fork(2).
        let usable = self.process.is_current();
        usable.then(|| self.topology.get_or_init(|| Topology::read().ok()).as_ref())?
    }

    /// Makes requesting threads look again at who serves them: after the
    /// termination flag, or where a processing thread has not come about.
    pub(crate) fn alert_requesters(&self) {
        self.sides.iter().for_each(|side| side.bell.ring());
    }

    /// # Errors
    /// The call may not be made, or not any more.
    pub(crate) fn admit(&self, request: &Request) -> Result<()> {
        self.rules.check(request).map_err(|denied| Error::denied(denied, 0, request))?;
        // A child of fork(2) makes its calls itself.
        let over = self.area.is_terminated() && self.process.is_current();
        if over { Err(Error::ShutDown) } else { Ok(()) }
    }

    /// The queue for a task.
    pub(crate) fn queue_of(&self, task: &Base) -> usize {
        let sleeps = task.sleeps || self.durations.is_long(&task.request);
        if sleeps && self.pool.threads() > 0 { SLEEPING } else { QUICK }
    }

    /// True if a request waits that the threads of this queue serve.
    #[inline(always)]
    pub(crate) fn waits(&self, queue: usize) -> bool {
        self.queues[queue].any() || queue == QUICK && self.area.line(PLACED).look().has_work()
    }

    /// The line for a request that is placed by hand, if it is one for such a call: soon over,
    /// as far as is known.
    pub(crate) fn line_for(&self, request: &Request) -> Option<&Line> {
        let known = self.durations.is_known(request.sysnum) && !self.durations.is_long(request);
        // The module would tell nobody of results.
        let told = self.inside.is_none();
        if !known || !told || !self.process.is_current() {
            return None;
        }
        if self.area.open_lanes() & 1 << PLACED == 0 {
            self.area.open_lane(PLACED);
        }
        Some(self.area.line(PLACED))
    }

    /// Seats on other cpus than `cpu`, the nearest first.
    pub(crate) fn near(&self, cpu: usize) -> &[usize] {
        // Cpus beyond share a list, which may name the caller's own.
        self.near[cpu.min(NEAR - 1)].get_or_init(|| {
            let seats = &self.seats;
            let mut near: Vec<usize> =
                (0..seats.len()).filter(|at| seats[*at].cpu != cpu).collect();
            if near.len() > 1 {
                if let Some(topology) = self.topology() {
                    near.sort_by_key(|at| topology.relation(cpu, seats[*at].cpu));
                }
            }
            near.into()
        })
    }

    /// Sees to it that all threads come to see the termination flag.
    pub(crate) fn wake_all(&self) {
        self.seats.iter().for_each(|seat| seat.bell.ring());
        self.callers.ring_all();
        self.watch.bell.ring();
        self.pool.reserve.wake_all();
        self.alert_requesters();
    }
}
