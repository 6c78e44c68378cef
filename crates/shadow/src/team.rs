//! Several helpers beside one main thread.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use kumiki_sys::affinity::{self, Bound};
use kumiki_wait::Policy;

use crate::cpus::Pair;
use crate::error::Result;
use crate::shadow::{Shadow, measure_sleep};

/// Chunks for each member: enough that a member that lost its cpu for a while
/// does not hold up the rest, few enough that taking one costs nothing.
const CHUNKS_EACH: usize = 4;

/// The calling thread (member 0) and helpers (members 1, 2, …), each on a cpu
/// of its own. Work is handed to each by its own line, as with a [`Shadow`].
///
/// ```
/// use kumiki_shadow::Team;
///
/// let mut team = Team::create(2).unwrap_or_else(|_| Team::inline());
/// let numbers: Vec<u64> = (0..100_000).collect();
/// let sum = team.reduce(
///     numbers.len(),
///     4096,
///     |range| numbers[range].iter().sum::<u64>(),
///     |a, b| a + b,
/// );
/// assert_eq!(sum, Some(4_999_950_000));
/// ```
pub struct Team {
    shadows: Vec<Shadow>,
    _bound: Option<Bound>,
}

impl Team {
    /// A team of `size` threads, the caller included; it is bound to the cpu
    /// where it runs, the helpers to the nearest cpus that are free.
    ///
    /// # Errors
    /// As [`Builder::create`](crate::Builder::create): above all, fewer free
    /// cpus than `size`.
    pub fn create(size: usize) -> Result<Team> {
        Team::with_policy(size, &Policy::default())
    }

    /// The same with another way to wait.
    ///
    /// # Errors
    /// As [`Team::create`].
    pub fn with_policy(size: usize, policy: &Policy) -> Result<Team> {
        measure_sleep(policy);
        let allowed = affinity::current()?;
        let mut main = None;
        let mut shadows = Vec::new();
        for _ in 1..size {
            let pair = Pair::take(&allowed, main, None, false)?;
            main = Some(pair.main);
            shadows.push(Shadow::beside(pair, policy)?);
        }
        let bound = main.map(affinity::bind).transpose()?;
        Ok(Team { shadows, _bound: bound })
    }

    /// A team of the calling thread alone.
    pub fn inline() -> Team {
        Team { shadows: Vec::new(), _bound: None }
    }

    /// Threads, the caller included.
    pub fn size(&self) -> usize {
        self.shadows.len() + 1
    }

    /// Runs `f(i)` once on each member `i`, on the caller as member 0; returns
    /// when all have ended. A panic of any member continues here then.
    pub fn broadcast<F: Fn(usize) + Sync>(&mut self, f: F) {
        let all = All(&mut self.shadows);
        for (i, shadow) in all.0.iter_mut().enumerate() {
            let f = &f;
            shadow.submit(move || f(i + 1));
        }
        f(0);
        let mut panic = None;
        for shadow in all.0.iter_mut() {
            // SAFETY: each shadow was handed a job that returns nothing.
            panic = panic.or(unsafe { shadow.finish::<()>() }.err());
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Calls `f` with ranges that cover `0..n` once, on all members. No range
    /// but the last is shorter than `grain`; with less than two grains of work
    /// everything runs here at once, without a fork.
    pub fn for_each<F: Fn(Range<usize>) + Sync>(&mut self, n: usize, grain: usize, f: F) {
        let chunk = self.chunk(n, grain);
        if chunk >= n {
            if n > 0 {
                f(0..n);
            }
            return;
        }
        let next = AtomicUsize::new(0);
        self.broadcast(|_| {
            while let Some(range) = claim(&next, n, chunk) {
                f(range);
            }
        });
    }

    /// Maps ranges that cover `0..n` as [`Team::for_each`] does, and folds what
    /// comes out; `None` for `n` = 0. `fold` must not care about the order.
    pub fn reduce<T, M, F>(&mut self, n: usize, grain: usize, map: M, fold: F) -> Option<T>
    where
        T: Send,
        M: Fn(Range<usize>) -> T + Sync,
        F: Fn(T, T) -> T + Sync,
    {
        let chunk = self.chunk(n, grain);
        if chunk >= n {
            return (n > 0).then(|| map(0..n));
        }
        let next = AtomicUsize::new(0);
        let (map, fold, next) = (&map, &fold, &next);
        let share = move || {
            let ranges = std::iter::from_fn(|| claim(next, n, chunk));
            ranges.map(map).reduce(fold)
        };
        let all = All(&mut self.shadows);
        for shadow in all.0.iter_mut() {
            shadow.submit(share);
        }
        let mut total = share();
        for shadow in all.0.iter_mut() {
            // SAFETY: each shadow was handed a `share`, which returns this.
            match unsafe { shadow.finish::<Option<T>>() } {
                Ok(theirs) => total = [total, theirs].into_iter().flatten().reduce(fold),
                Err(panic) => resume_unwind(panic),
            }
        }
        total
    }

    /// A meeting point for all members, for use within [`Team::broadcast`].
    pub fn barrier(&self) -> Barrier {
        Barrier { size: self.size(), arrived: AtomicUsize::new(0), round: AtomicUsize::new(0) }
    }

    fn chunk(&self, n: usize, grain: usize) -> usize {
        let grain = grain.max(1);
        if self.shadows.is_empty() || n < 2 * grain {
            return n;
        }
        n.div_ceil(self.size() * CHUNKS_EACH).max(grain)
    }
}

/// The next range of `chunk` out of `0..n`.
fn claim(next: &AtomicUsize, n: usize, chunk: usize) -> Option<Range<usize>> {
    // Relaxed: the counter only hands out numbers; fork and join order the data.
    let start = next.fetch_add(chunk, Ordering::Relaxed);
    (start < n).then(|| start..n.min(start.saturating_add(chunk)))
}

/// Jobs borrow from the caller: none may be left when it unwinds.
struct All<'a>(&'a mut [Shadow]);

impl Drop for All<'_> {
    fn drop(&mut self) {
        for shadow in self.0.iter_mut().filter(|shadow| shadow.is_busy()) {
            shadow.settle();
        }
    }
}

/// Lets members wait for one another, again and again. Members spin: what lies
/// between two barriers should be short, and every member must come.
#[derive(Debug)]
pub struct Barrier {
    size: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
}

impl Barrier {
    /// Waits until every member has called this; what each wrote before is
    /// visible to all after.
    pub fn wait(&self) {
        let round = self.round.load(Ordering::Relaxed);
        // AcqRel: the last to arrive has seen what all others wrote.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            self.arrived.store(0, Ordering::Relaxed);
            // Release: partner of the Acquire below.
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        while self.round.load(Ordering::Acquire) == round {
            std::hint::spin_loop();
        }
    }
}
