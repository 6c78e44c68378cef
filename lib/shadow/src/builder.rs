//! The options of a shadow, and its creation.

use std::time::Duration;

use kumiki_sys::affinity::{self, Bound};
use kumiki_sys::here::Here;
use kumiki_sys::quota;
use kumiki_wait::{Policy, Threshold};

use crate::choice::Wish;
use crate::cpus::{Machine, Pair};
use crate::error::{Error, Result};
use crate::shadow::Shadow;
use crate::team::Team;
use kumiki_wait::Deadline;

/// The options of a [`Shadow`] or a [`Team`].
///
/// A cpu is free if this thread may use it and no shadow of this *process* runs there.
/// Shadows of other processes and other load are not seen: helpers of two processes may
/// share a cpu unless each process has cpus of its own (taskset, a cgroup's cpuset). A
/// cgroup's `cpu.max` bounds [`create_team_up_to`](Builder::create_team_up_to) alone: with less than two
/// cpus' worth of time, a spinning helper uses up the quota and the kernel stops both threads for the
/// rest of the period. Use [`Shadow::inline`] or a short [`Threshold`](crate::Threshold) there.
///
/// ```
/// use kumiki_shadow::Builder;
///
/// // Maybe more threads than this machine has cpus.
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
    /// The main thread stays where it runs, not bound; the helper goes to its hardware
    /// sibling or, without SMT, to the cpu nearest by shared cache; the wait is adaptive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds the main thread to its cpu too, if true, as in the paper, until its last shadow is
    /// dropped. The kernel then cannot move it away from its helper. But threads and processes that
    /// it starts meanwhile inherit that one cpu and keep it: start them before, or set their
    /// affinity.
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

    /// Binds a team's helpers to these cpus, in order. Further helpers are placed as
    /// usual; more cpus than helpers are an error.
    pub fn helper_cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.helpers = cpus.into_iter().collect();
        self
    }

    /// Allows a cpu that another shadow of this process, or the main thread itself,
    /// already uses; the least used one is taken. Helpers that share a cpu run in turn
    /// and slow each other down.
    pub fn share(mut self) -> Self {
        self.share = true;
        self
    }

    /// Sets the way in which both sides wait.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Starts the helper beside the calling thread (the paper's `shadow_create`). If a
    /// shadow of another thread already uses the caller's cpu, the caller moves to
    /// another one.
    ///
    /// # Errors
    /// The cpu is offline, not allowed or taken; the kernel refuses a thread; this
    /// machine lacks the way to wait.
    ///
    /// # Aborts
    /// If there is memory for the thread's stack but not for its start (some 40 KiB
    /// more), as can happen under RLIMIT_AS: the standard library or the C library then
    /// aborts the process.
    pub fn create(self) -> Result<Shadow> {
        self.create_timeout(Duration::MAX)
    }

    /// Creates as [`Builder::create`], but waits for the helper for `timeout` at most: a thread of
    /// higher priority may keep it off its cpu. The limit does not include the few milliseconds
    /// that measuring the cost of a sleep takes once per process (call
    /// [`kumiki_wait::sleep_cost_ticks`] before to have that done), nor delays of the calling
    /// thread itself, above all on its way to its cpu.
    ///
    /// # Errors
    /// [`TimedOut`](crate::Error::TimedOut): the helper's cpu counts as free again, and
    /// the helper ends as soon as it runs. Otherwise as [`Builder::create`].
    pub fn create_timeout(self, timeout: Duration) -> Result<Shadow> {
        self.check(1)?;
        measure_sleep(&self.policy);
        let deadline = Deadline::after(timeout);
        let pair = Pair::take(&Machine::read()?, self.wish(0))?;
        let bound = self.place(&pair)?;
        Shadow::beside(pair, bound, &self.policy, deadline)
    }

    /// Creates as [`Builder::create`], but where this thread may use one cpu only, jobs run in it
    /// ([`Shadow::inline`]): a program goes on with half the threads where nothing else can be had.
    ///
    /// # Errors
    /// As [`Builder::create`]; above all [`NoFreeCpu`](Error::NoFreeCpu) where there are
    /// cpus and other shadows of this process have them. Jobs that ran in the caller then
    /// would only hide that.
    pub fn create_or_inline(self) -> Result<Shadow> {
        match self.create() {
            Err(Error::NoFreeCpu { allowed, .. }) if allowed.len() == 1 => Ok(Shadow::inline()),
            outcome => outcome,
        }
    }

    /// A team of `size` threads, the caller included: [`Builder::create`] with several
    /// helpers. A team of 1 has no helper.
    ///
    /// # Errors
    /// As [`Builder::create`]; typically [fewer](Error::TeamTooLarge) free cpus than
    /// `size`, unless [`Builder::share`] is set. A `size` of 0 is an error too.
    pub fn create_team(self, size: usize) -> Result<Team> {
        self.create_team_timeout(size, Duration::MAX)
    }

    /// Creates a team, but waits for the helpers for `timeout` at most, as
    /// [`Builder::create_timeout`] does.
    ///
    /// # Errors
    /// [`TimedOut`](crate::Error::TimedOut) with the number of helpers that started in
    /// time; all of them end. Otherwise as [`Builder::create_team`].
    pub fn create_team_timeout(self, size: usize, timeout: Duration) -> Result<Team> {
        let Some(helpers) = size.checked_sub(1) else {
            return Err(invalid("a team of 0 threads: the caller is one of it, ask for 1 or more"));
        };
        self.check(helpers)?;
        measure_sleep(&self.policy);
        let deadline = Deadline::after(timeout);
        let machine = Machine::read()?;
        let mut main = self.main;
        let pairs = (0..helpers).map(|helper| {
            let pair = Pair::take(&machine, Wish { main, ..self.wish(helper) })?;
            // One main thread for all, wherever it is moved meanwhile.
            main = Some(pair.main);
            Ok(pair)
        });
        Team::of(pairs, |pair| self.place(pair), &self.policy, deadline, &machine.taken()?)
    }

    /// A team of `size` threads, or of as many as this thread may use cpus if that is
    /// fewer, or as its cgroup's quota lets run at the same time ([`quota`](kumiki_sys::quota::threads)).
    ///
    /// # Errors
    /// As [`Builder::create_team`]; above all where other shadows of this process have
    /// some of the cpus.
    pub fn create_team_up_to(self, size: usize) -> Result<Team> {
        let threads = Machine::read()?.cpus().min(quota::threads().unwrap_or(usize::MAX));
        self.create_team(size.min(threads))
    }

    /// Moves the calling thread to its cpu, once or for as long as the value lives.
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
    /// As [`Builder::create`], which also names the case in which the process is aborted.
    pub fn create() -> Result<Shadow> {
        Builder::new().create()
    }

    /// Creates a shadow, or an [inline](Shadow::inline) one where this thread may use one cpu only:
    /// [`Builder::create_or_inline`].
    ///
    /// # Errors
    /// As there.
    pub fn create_or_inline() -> Result<Shadow> {
        Builder::new().create_or_inline()
    }
}

impl Team {
    /// A team of `size` threads, the caller included, with the helpers on the nearest
    /// free cpus; they follow the main thread as a [`Shadow`]'s helper does. To choose
    /// the cpus, or to have more threads than free cpus: [`Builder::create_team`].
    ///
    /// # Errors
    /// As [`Builder::create_team`].
    pub fn create(size: usize) -> Result<Team> {
        Builder::new().create_team(size)
    }

    /// A team of `size` threads, or of as many as this thread may use cpus:
    /// [`Builder::create_team_up_to`].
    ///
    /// # Errors
    /// As there.
    pub fn create_up_to(size: usize) -> Result<Team> {
        Builder::new().create_team_up_to(size)
    }

    /// Creates a team with the given wait policy.
    ///
    /// # Errors
    /// As [`Team::create`].
    pub fn with_policy(size: usize, policy: &Policy) -> Result<Team> {
        Team::create_timeout(size, policy, Duration::MAX)
    }

    /// Creates a team within a time limit: [`Builder::create_team_timeout`].
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

/// Measures the cost of a sleep, once per process, while this thread may still use
/// several cpus: a wake on one cpu is much cheaper than across two. Done for a fixed
/// threshold too, since a copy needs to know what it costs to wake the helper.
pub(crate) fn measure_sleep(policy: &Policy) {
    if policy.threshold != Threshold::Infinite {
        kumiki_wait::sleep_cost_ticks();
    }
}
