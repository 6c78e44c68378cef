//! Several helpers beside one main thread.

use std::marker::PhantomData;
use std::mem;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use kumiki_crew::roll::{self, Look};
use kumiki_sys::affinity::Bound;
use kumiki_sys::cpuset::CpuSet;
use kumiki_wait::Policy;

use crate::barrier::Barrier;
use crate::cpus::Pair;
use crate::error::{Error, Result};
use crate::party::{Lent, Party, parted};
use crate::primitive::{AtomicBool, AtomicUsize, Ordering};
use crate::shadow::{Info, Shadow};
use crate::shares::Counters;
use kumiki_wait::Deadline;

/// The calling thread (member 0) and helpers (members 1, 2, …), each on a cpu
/// of its own. Work is handed to each by its own line, as with a [`Shadow`].
///
/// ```
/// use kumiki_shadow::Team;
///
/// let mut team = Team::create_up_to(2)?;
/// let numbers: Vec<u64> = (0..100_000).collect();
/// let sum = team.reduce(
///     numbers.len(),
///     4096,
///     |range| numbers[range].iter().sum::<u64>(),
///     |a, b| a + b,
/// );
/// assert_eq!(sum, Some(4_999_950_000));
/// # Ok::<(), kumiki_shadow::Error>(())
/// ```
pub struct Team {
    /// Helpers to which the main thread hands work itself.
    shadows: Vec<Shadow>,
    /// Followers of the last ones of these.
    parties: Vec<Party>,
    /// A member has panicked since the last broadcast began, or did not begin in time, so
    /// it will not come to a barrier.
    pub(crate) deserted: Arc<AtomicBool>,
    counters: Counters,
    _bound: Option<Bound>,
    _entry: Option<roll::RollEntry>,
}

impl Team {
    /// A team with a helper on each of these pairs, whose main thread is the caller; `taken`
    /// were cpus before.
    pub(crate) fn of(
        mut pairs: impl ExactSizeIterator<Item = Result<Pair>>,
        place: impl Fn(&Pair) -> Result<Option<Bound>>,
        policy: &Policy,
        deadline: Deadline,
        taken: &CpuSet,
    ) -> Result<Team> {
        let (mut team, helpers) = (Team::inline(), pairs.len());
        match pairs.try_for_each(|pair| team.grow(pair?, &place, policy, deadline)) {
            Ok(()) => {
                (team.shadows, team.parties) = parted(mem::take(&mut team.shadows));
                // Not before: so many cpus there may not be, nor memory for them.
                team.counters = Counters::new(team.size());
                team._entry = Some(team.enter());
                Ok(team)
            }
            Err(error) => {
                let come = team.shadows.len();
                team.end(deadline);
                Err(match error {
                    Error::TimedOut { what, .. } => Error::late(deadline, what, come, helpers),
                    // Not the cpus that the team itself had taken meanwhile.
                    Error::NoFreeCpu { allowed, .. } if come > 0 => Error::TeamTooLarge {
                        asked: helpers + 1,
                        free: come + 1,
                        allowed,
                        taken: taken.clone(),
                    },
                    other => other,
                })
            }
        }
    }

    /// Shows the team to observers; each helper shows itself.
    fn enter(&self) -> roll::RollEntry {
        let (size, main) = (self.size(), self.info().next().map(|info| info.main_cpu));
        roll::enter("team", main, move || Look {
            state: format!("{size} threads"),
            ..Look::default()
        })
    }

    /// Takes one more helper.
    fn grow(
        &mut self,
        pair: Pair,
        place: impl Fn(&Pair) -> Result<Option<Bound>>,
        policy: &Policy,
        deadline: Deadline,
    ) -> Result<()> {
        if self.shadows.is_empty() {
            self._bound = place(&pair)?;
        }
        self.shadows.push(Shadow::beside(pair, None, policy, deadline)?);
        Ok(())
    }

    /// Cpu and way of waiting of each helper, member 1 first.
    pub fn info(&self) -> impl Iterator<Item = Info> {
        let followers = self.parties.iter().flat_map(|party| &party.shadows);
        self.shadows.iter().chain(followers).filter_map(Shadow::info)
    }

    /// Ends the team as a drop does, but waits for the helpers' end for `timeout` at
    /// most; it comes later by itself if something keeps one from its cpu.
    pub fn destroy_timeout(mut self, timeout: Duration) {
        self.end(Deadline::after(timeout));
    }

    fn end(&mut self, deadline: Deadline) {
        each(&mut self.shadows, &mut self.parties).for_each(|shadow| shadow.end(deadline));
    }

    /// A team of the calling thread alone.
    pub fn inline() -> Team {
        Team {
            shadows: Vec::new(),
            parties: Vec::new(),
            deserted: Arc::default(),
            counters: Counters::new(1),
            _bound: None,
            _entry: None,
        }
    }

    /// Threads, the caller included.
    pub fn size(&self) -> usize {
        let followers: usize = self.parties.iter().map(|party| party.shadows.len()).sum();
        self.shadows.len() + followers + 1
    }

    /// Runs `f(i)` once on each member `i`, the caller being member 0; returns when all
    /// have ended. A panic of any member is then resumed here.
    pub fn broadcast<F: Fn(usize) + Sync>(&mut self, f: F) {
        let Team { shadows, parties, deserted, .. } = self;
        broadcast((shadows, parties), deserted, f);
    }

    /// Calls `f` with ranges that together cover `0..n`, on all members: each has a share
    /// of its own, which depends on `n` and `grain` alone, and then steals from the
    /// others. No range but the last is shorter than `grain`; less than two grains of
    /// work run here, without a fork.
    pub fn for_each<F: Fn(Range<usize>) + Sync>(&mut self, n: usize, grain: usize, f: F) {
        match self.counters.divide(n, grain) {
            Some(shares) => {
                let Team { shadows, parties, deserted, .. } = self;
                broadcast((shadows, parties), deserted, move |member| {
                    shares.of(member).for_each(&f);
                });
            }
            None if n > 0 => f(0..n),
            None => {}
        }
    }

    /// Maps ranges that cover `0..n` as [`Team::for_each`] does, and folds the results;
    /// `None` for `n` = 0. The order is not defined: `fold` must be associative and
    /// commutative.
    pub fn reduce<T, M, F>(&mut self, n: usize, grain: usize, map: M, fold: F) -> Option<T>
    where
        T: Send,
        M: Fn(Range<usize>) -> T + Sync,
        F: Fn(T, T) -> T + Sync,
    {
        let Some(shares) = self.counters.divide(n, grain) else {
            return (n > 0).then(|| map(0..n));
        };
        let fold = &fold;
        let share = move |member| shares.of(member).map(&map).reduce(fold);
        gather((&mut self.shadows, &mut self.parties), &share, fold)
    }

    pub(crate) fn reduce_ranges<T, M, F>(&mut self, ranges: &Ranges, map: &M, fold: &F) -> Option<T>
    where
        T: Send,
        M: Fn(Range<usize>) -> T + Sync,
        F: Fn(T, T) -> T + Sync,
    {
        let share = |_| ranges.iter().map(map).reduce(fold);
        gather((&mut self.shadows, &mut self.parties), &share, fold)
    }

    /// A meeting point for all members, for use within [`Team::broadcast`].
    pub fn barrier(&self) -> Barrier {
        let home = self.shadows.first().and_then(Shadow::home);
        Barrier::new(&self.groups(), home, Arc::clone(&self.deserted))
    }

    /// Cpus of the members as work is handed on: the main thread's with its neighbours', each leader's with
    /// his followers'.
    fn groups(&self) -> Vec<Vec<usize>> {
        let cpu = |shadow: &Shadow| shadow.info().map_or(0, |info| info.helper_cpu);
        let (near, leaders) = self.shadows.split_at(self.shadows.len() - self.parties.len());
        let main = self.info().next().map_or(0, |info| info.main_cpu);
        let first = [main].into_iter().chain(near.iter().map(cpu)).collect();
        let parties = leaders.iter().zip(&self.parties).map(|(leader, party)| {
            [cpu(leader)].into_iter().chain(party.shadows.iter().map(cpu)).collect()
        });
        [first].into_iter().chain(parties).collect()
    }
}

/// All helpers of a team.
fn each<'a>(
    shadows: &'a mut [Shadow],
    parties: &'a mut [Party],
) -> impl Iterator<Item = &'a mut Shadow> {
    shadows.iter_mut().chain(parties.iter_mut().flat_map(|party| &mut party.shadows))
}

/// Runs `f(i)` on each member.
fn broadcast(
    (shadows, parties): (&mut [Shadow], &mut [Party]),
    deserted: &AtomicBool,
    f: impl Fn(usize) + Sync,
) {
    // Relaxed, as it only says that waiting is in vain.
    deserted.store(false, Ordering::Relaxed);
    // Moved: what a helper needs is in one place, not a line behind each pointer.
    let member = move |i| {
        let deserts = Deserts(deserted);
        f(i);
        mem::forget(deserts);
    };
    follow(shadows, parties);
    let member = &member;
    run(shadows, parties, (0, 1), member);
}

/// Runs `member` of the first number here, and of those from the second on by the helpers that this thread hands work
/// to; of theirs by their parties, the last ones of these.
fn run<F: Fn(usize) + Sync>(
    shadows: &mut [Shadow],
    parties: &mut [Party],
    (here, first): (usize, usize),
    member: &F,
) {
    // SAFETY: the jobs below return nothing.
    let all = unsafe { All::<()>::of(shadows) };
    let alone = all.shadows.len() - parties.len();
    let (near, leaders) = all.shadows.split_at_mut(alone);
    // The farthest first.
    for (i, (leader, party)) in leaders.iter_mut().zip(parties).enumerate() {
        let lent = Lent::of(party);
        leader.submit(move || {
            let Party { shadows, first: next } = lent.party();
            run(shadows, &mut [], (first + alone + i, *next), member);
        });
    }
    for (i, shadow) in near.iter_mut().enumerate() {
        let job = move || member(first + i);
        match here {
            0 => shadow.submit(job),
            _ => shadow.submit_for_main(job),
        }
    }
    member(here);
    let mut panic = None;
    for shadow in all.shadows.iter_mut() {
        // SAFETY: each shadow was handed a job that returns nothing.
        panic = panic.or(unsafe { shadow.finish::<()>() }.err());
    }
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Moves the helpers beside their main thread, if that was moved: all note its new cpu
/// before the first helper moves, since its former cpu is free for one of them.
#[inline(always)]
fn follow(shadows: &mut [Shadow], parties: &mut [Party]) {
    if let Some(here) = shadows.first().and_then(Shadow::elsewhere) {
        all_follow(shadows, parties, here);
    }
}

#[cold]
#[inline(never)]
fn all_follow(shadows: &mut [Shadow], parties: &mut [Party], here: usize) {
    each(shadows, parties).for_each(|shadow| shadow.see(here));
    each(shadows, parties).for_each(|shadow| shadow.improve(here));
}

/// Folds what each member's share gives.
fn gather<T, S, F>(
    (shadows, parties): (&mut [Shadow], &mut [Party]),
    share: &S,
    fold: &F,
) -> Option<T>
where
    T: Send,
    S: Fn(usize) -> Option<T> + Sync,
    F: Fn(T, T) -> T + Sync,
{
    follow(shadows, parties);
    folded(shadows, parties, (0, 1), share, fold)
}

/// Folds shares as [`run`] runs members: a leader folds those of his party.
fn folded<T, S, F>(
    shadows: &mut [Shadow],
    parties: &mut [Party],
    (here, first): (usize, usize),
    share: &S,
    fold: &F,
) -> Option<T>
where
    T: Send,
    S: Fn(usize) -> Option<T> + Sync,
    F: Fn(T, T) -> T + Sync,
{
    // SAFETY: the jobs below return this each.
    let all = unsafe { All::<Option<T>>::of(shadows) };
    let alone = all.shadows.len() - parties.len();
    let (near, leaders) = all.shadows.split_at_mut(alone);
    for (i, (leader, party)) in leaders.iter_mut().zip(parties).enumerate() {
        let lent = Lent::of(party);
        leader.submit(move || {
            let Party { shadows, first: next } = lent.party();
            folded(shadows, &mut [], (first + alone + i, *next), share, fold)
        });
    }
    for (i, shadow) in near.iter_mut().enumerate() {
        let job = move || share(first + i);
        match here {
            0 => shadow.submit(job),
            _ => shadow.submit_for_main(job),
        }
    }
    let mut total = share(here);
    for shadow in all.shadows.iter_mut() {
        // SAFETY: each shadow was handed a job that returns this.
        match unsafe { shadow.finish::<Option<T>>() } {
            Ok(theirs) => total = [total, theirs].into_iter().flatten().reduce(fold),
            Err(panic) => resume_unwind(panic),
        }
    }
    total
}

/// `0..n` in ranges, handed out in order until a deadline: what was handed out is then a
/// prefix.
pub(crate) struct Ranges {
    /// Counts ranges, not elements: those asked for in vain cannot make it
    /// begin again.
    next: AtomicUsize,
    n: usize,
    chunk: usize,
    deadline: Deadline,
}

impl Ranges {
    /// Ranges that are not handed out any more after `deadline`.
    pub(crate) fn until(deadline: Deadline, n: usize, chunk: usize) -> Self {
        Ranges { next: AtomicUsize::new(0), n, chunk, deadline }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        std::iter::from_fn(|| self.claim())
    }

    fn claim(&self) -> Option<Range<usize>> {
        if self.deadline.passed() {
            return None;
        }
        // Relaxed: the counter only hands out numbers; fork and join order the data.
        let start = self.next.fetch_add(1, Ordering::Relaxed).checked_mul(self.chunk)?;
        (start < self.n).then(|| start..self.n.min(start.saturating_add(self.chunk)))
    }

    pub(crate) fn are_one(&self) -> bool {
        self.n <= self.chunk
    }

    /// Number of elements of `0..n` that were handed out, from the beginning.
    pub(crate) fn handed_out(&self) -> usize {
        self.n.min(self.next.load(Ordering::Relaxed).saturating_mul(self.chunk))
    }

    pub(crate) fn len(&self) -> usize {
        self.n
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline
    }
}

/// Dropped by a member that unwinds.
struct Deserts<'a>(&'a AtomicBool);

impl Drop for Deserts<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Jobs borrow from the caller: when it unwinds none may be left, and no result may be
/// left untaken.
struct All<'a, R> {
    shadows: &'a mut [Shadow],
    _results: PhantomData<R>,
}

impl<'a, R> All<'a, R> {
    /// # Safety
    /// The jobs that these shadows are handed return an `R`, as long as this lives.
    unsafe fn of(shadows: &'a mut [Shadow]) -> Self {
        All { shadows, _results: PhantomData }
    }
}

impl<R> Drop for All<'_, R> {
    fn drop(&mut self) {
        for shadow in self.shadows.iter_mut().filter(|shadow| shadow.is_busy()) {
            // SAFETY: a job is outstanding, and `of` was told what it returns.
            unsafe { shadow.discard::<R>() };
        }
    }
}
