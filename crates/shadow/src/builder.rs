//! What a shadow is to be like, and its creation.

use std::time::Duration;

use kumiki_sys::affinity::{self, Bound};
use kumiki_sys::here::Here;
use kumiki_wait::{Policy, Threshold};

use crate::choice::Wish;
use crate::cpus::{Machine, Pair};
use crate::error::{Error, Result};
use crate::shadow::Shadow;
use crate::team::Team;
use kumiki_wait::Deadline;

/// What a [`Shadow`] or a [`Team`] is to be like.
///
/// A cpu is free if this thread may use it and no shadow of this *process* sits there.
/// Those of other processes are not known, nor what else runs: two processes may have
/// their helpers on one cpu, unless they are given cpus of their own (taskset, a
/// cgroup's cpuset). Nor is a cgroup's `cpu.max` looked at: where it allows less than
/// two cpus' time, a helper that spins uses up the main thread's, and both are stopped
/// for the rest of the period; [`Shadow::inline`] or a short
/// [`Threshold`](crate::Threshold) suits there.
///
/// ```
/// use kumiki_shadow::Builder;
///
/// // More threads than this machine may have cpus.
/// let mut team = Builder::new().share().create_team(4)?;
/// let sum = team.reduce(1000, 10, |range| range.sum::<usize>(), |a, b| a + b);
/// assert_eq!(sum, Some(499_500));
/// assert_eq!(team.info().count(), 3);
/// # Ok::<(), kumiki_shadow::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    main: Option<usize>,
    helpers: Vec<usize>,
    bind_main: bool,
    share: bool,
    policy: Policy,
}

impl Builder {
    /// Main thread where it runs now, not bound; helper on its hardware sibling or,
    /// without SMT, on the cpu nearest by shared cache; adaptive wait.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the main thread is bound to its cpu, too, as in the paper, until its last
    /// shadow is dropped. It cannot be moved from its helper then. But threads and
    /// processes that it starts meanwhile inherit its one cpu and keep it: start them
    /// before, or give them their cpus.
    pub fn bind_main(mut self, bind: bool) -> Self {
        self.bind_main = bind;
        self
    }

    /// [Binds](Builder::bind_main) the main thread to this cpu.
    pub fn main_cpu(mut self, cpu: usize) -> Self {
        self.main = Some(cpu);
        self
    }

    /// Binds the helper, of a team the first one, to this cpu.
    pub fn helper_cpu(self, cpu: usize) -> Self {
        self.helper_cpus([cpu])
    }

    /// Binds a team's helpers to these cpus, in order. Helpers beyond them are placed
    /// as ever; cpus beyond the helpers are an error.
    pub fn helper_cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.helpers = cpus.into_iter().collect();
        self
    }

    /// Allows a cpu on which another shadow of this process, or the main thread
    /// itself, already sits: of those, one on which the fewest do. Helpers that share a
    /// cpu run in turn, and take time from each other.
    pub fn share(mut self) -> Self {
        self.share = true;
        self
    }

    /// How both sides wait.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Starts the helper beside the calling thread (the paper's `shadow_create`). That
    /// moves to another cpu where a shadow of another thread sits on its own.
    ///
    /// # Errors
    /// A cpu that is offline, not allowed or taken; no thread to be had; a way
    /// to wait that this machine lacks.
    ///
    /// # Aborts
    /// If memory suffices for the thread's stack but not for its first steps, some
    /// 40 KiB more, as it may under RLIMIT_AS: the standard library and the C
    /// library then end the process.
    pub fn create(self) -> Result<Shadow> {
        self.create_timeout(Duration::MAX)
    }

    /// As [`Builder::create`], but the helper is waited for until `timeout` is over:
    /// a thread of higher priority may keep it from its cpu. Not counted are the
    /// milliseconds, once in a process, in which the cost of a sleep is measured
    /// ([`kumiki_wait::sleep_cost_ticks`], which may be called before), and what this
    /// thread itself is kept waiting by, on the way to its cpu above all.
    ///
    /// # Errors
    /// [`TimedOut`](crate::Error::TimedOut): the helper ends as soon as it gets its
    /// cpu, which no longer counts as taken. Others as [`Builder::create`].
    pub fn create_timeout(self, timeout: Duration) -> Result<Shadow> {
        self.check(1)?;
        measure_sleep(&self.policy);
        let deadline = Deadline::after(timeout);
        let pair = Pair::take(&Machine::read()?, self.wish(0))?;
        let bound = self.place(&pair)?;
        Shadow::beside(pair, bound, &self.policy, deadline)
    }

    /// A team of `size` threads, the caller included: [`Builder::create`] with several
    /// helpers. One of 1 has none.
    ///
    /// # Errors
    /// As [`Builder::create`]: above all, without [`Builder::share`], fewer free cpus
    /// than `size`; also a `size` of 0.
    pub fn create_team(self, size: usize) -> Result<Team> {
        self.create_team_timeout(size, Duration::MAX)
    }

    /// The same, but the helpers are waited for until `timeout` is over, as by
    /// [`Builder::create_timeout`].
    ///
    /// # Errors
    /// [`TimedOut`](crate::Error::TimedOut) with the number of helpers that have come;
    /// all end then. Others as [`Builder::create_team`].
    pub fn create_team_timeout(self, size: usize, timeout: Duration) -> Result<Team> {
        let Some(helpers) = size.checked_sub(1) else {
            return Err(invalid("a team of 0 threads: the caller is one of it, ask for 1 or more"));
        };
        self.check(helpers)?;
        measure_sleep(&self.policy);
        let deadline = Deadline::after(timeout);
        let machine = Machine::read()?;
        let pairs = (0..helpers).map(|helper| Pair::take(&machine, self.wish(helper)));
        Team::of(pairs, |pair| self.place(pair), &self.policy, deadline)
    }

    /// Puts the calling thread on its cpu, for now or as long as the value lives.
    fn place(&self, pair: &Pair) -> Result<Option<Bound>> {
        if self.bind_main || self.main.is_some() {
            return Ok(Some(affinity::bind(pair.main)?));
        }
        if !Here::of_this_thread().is(pair.main) {
            drop(affinity::bind(pair.main)?);
        }
        Ok(None)
    }

    fn wish(&self, helper: usize) -> Wish {
        let helper = self.helpers.get(helper).copied();
        Wish { main: self.main, helper, share: self.share }
    }

    fn check(&self, helpers: usize) -> Result<()> {
        let cpus = self.helpers.len();
        if cpus <= helpers {
            return Ok(());
        }
        Err(invalid(format!("{cpus} cpus were chosen for helpers, of which there are {helpers}")))
    }
}

impl Shadow {
    /// A shadow with all defaults: [`Builder::create`].
    ///
    /// # Errors
    /// As [`Builder::create`], which also says when the process is ended instead.
    pub fn create() -> Result<Shadow> {
        Builder::new().create()
    }
}

impl Team {
    /// A team of `size` threads, the caller included, with the helpers on the nearest cpus
    /// that are free; they follow it as a [`Shadow`]'s does. For other cpus, or more
    /// threads than there are free ones: [`Builder::create_team`].
    ///
    /// # Errors
    /// As [`Builder::create_team`].
    pub fn create(size: usize) -> Result<Team> {
        Builder::new().create_team(size)
    }

    /// The same with another way to wait.
    ///
    /// # Errors
    /// As [`Team::create`].
    pub fn with_policy(size: usize, policy: &Policy) -> Result<Team> {
        Team::create_timeout(size, policy, Duration::MAX)
    }

    /// The same with a time limit: [`Builder::create_team_timeout`].
    ///
    /// # Errors
    /// As there.
    pub fn create_timeout(size: usize, policy: &Policy, timeout: Duration) -> Result<Team> {
        Builder::new().policy(*policy).create_team_timeout(size, timeout)
    }
}

fn invalid(text: impl Into<String>) -> Error {
    kumiki_sys::Error::Invalid(text.into()).into()
}

/// Has the cost of a sleep measured, once in a process, while this thread may
/// still use several cpus: on one alone a wake is much cheaper than across. With a
/// fixed threshold, too: a copy asks what it costs to wake the helper.
pub(crate) fn measure_sleep(policy: &Policy) {
    if policy.threshold != Threshold::Infinite {
        kumiki_wait::sleep_cost_ticks();
    }
}
