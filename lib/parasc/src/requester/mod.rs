//! A requesting thread.

mod alone;
mod hand_over;
mod meanwhile;
mod passes;
mod run;
mod watched;
mod writeback;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Release};

use kumiki_wait::{Policy, Ticks, Waiter};

use self::alone::Alone;
use self::meanwhile::{Forked, Meanwhile};
use self::passes::{KINDS, Passes};
use self::writeback::Writebacks;

use crate::area::REQUESTERS;
use crate::core::{Core, ProgramThread};
use crate::cost::{Costs, Means, sleep_ticks};
use crate::error::{Error, Result};
use crate::execute::{Rules, call};
use crate::op::Operation;
use kumiki_calls::Request;

/// No call's [`Request::head`].
const NO_CALL: u64 = u64::MAX;

/// A thread's lane in an area, and what it has learnt about its calls.
///
/// Batches block until all calls have been made; their order is open. Small
/// batches of cheap calls are made by the caller itself, larger ones together
/// with processing threads, whichever has proved faster. No two calls of a batch
/// are promised to be under way at the same time: one that waits for another of its
/// own batch, as a read from a pipe for the write that fills it, may wait for ever.
///
/// It may move between threads; each thread that makes requests has its own.
pub struct Requester {
    core: Arc<Core>,
    /// Rules of the engine, at hand.
    rules: Rules,
    help: bool,
    /// The last single calls made here without a look at their arguments
    /// ([`Request::head`]), by their numbers' last bits: a comparison is shorter than a
    /// look into the rules, and programs make some kinds of calls in turns.
    known: [u64; KINDS],
    /// [`Request::head`] of the last one that was handed over.
    handed: u64,
    lane: usize,
    /// Batches so far.
    batches: u32,
    waiter: Waiter,
    ticks: Ticks,
    costs: Costs,
    means: Means,
    passes: Passes,
    alone: Alone,
    /// Cpu of this thread when `near` was made.
    cpu: usize,
    /// Seats on other cpus, the nearest first.
    near: Vec<usize>,
    /// Threads of the program that serve …
    own: Vec<Arc<ProgramThread>>,
    /// Number of changes to their list at that time.
    own_changes: usize,
    /// Time of one call handed over, so as not to disturb it, ticks.
    quiet: u64,
    requests: Vec<Request>,
    results: Vec<i64>,
    begun: Writebacks,
}

/// Prints which one it is; it has learnt hundreds of numbers.
impl fmt::Debug for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requester { lane, batches, cpu, .. } = self;
        f.debug_struct("Requester")
            .field("lane", lane)
            .field("batches", batches)
            .field("cpu", &(*cpu != usize::MAX).then_some(*cpu))
            .finish_non_exhaustive()
    }
}

impl Requester {
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        // Before the waiter, which would have it measured in its own way.
        let sleep = sleep_ticks(&core.cpus) as f32;
        let waiter = Waiter::new(&Policy::default())?;
        let free = |at: &usize| !core.sides[*at].leased.swap(true, AcqRel);
        let lanes = core.sides.len();
        let lane = (0..lanes).find(free).ok_or(Error::NoLane { lanes, most: REQUESTERS })?;
        core.area.open_lane(lane);
        let means = Means { alone: is_alone(), sleep, ..Means::default() };
        let mut requester = Requester {
            rules: core.rules.clone(),
            help: core.help,
            known: [NO_CALL; KINDS],
            handed: NO_CALL,
            core,
            lane,
            batches: 0,
            waiter,
            ticks: Ticks::new(),
            costs: Costs::default(),
            means,
            passes: Passes::NONE,
            alone: Alone::default(),
            cpu: usize::MAX,
            near: Vec::new(),
            own: Vec::new(),
            own_changes: 0,
            quiet: 0,
            requests: Vec::new(),
            results: Vec::new(),
            begun: Writebacks::default(),
        };
        requester.settle();
        Ok(requester)
    }

    /// Makes the calls of `operations`, and returns what each has given, in
    /// their order. The calls themselves have none.
    ///
    /// What this thread has written before, the calls find, and what they have written
    /// it finds when this returns: threads that make calls synchronize with it both ways.
    ///
    /// # Errors
    /// [`Error::NotAllowed`] if the engine's allow-list lacks one, [`Error::Refused`] for
    /// a call of [`op::raw`](crate::op::raw()) that no other thread may make; then nothing
    /// has been executed. What the kernel answers is in the outputs.
    pub fn run<O: Operation>(&mut self, operations: &mut [O]) -> Result<Vec<O::Output>> {
        if self.help {
            if let [operation] = operations {
                // What a batch needs besides takes half as long as a short call.
                return Ok(vec![self.call(operation)?]);
            }
        }
        self.execute_operations(operations, Meanwhile::default())
    }

    /// Runs as [`run`](Self::run), and calls `meanwhile` as soon as the batch has been handed to
    /// processing threads, so that they are at it while this thread does something else. Where the
    /// caller makes the calls itself, `meanwhile` comes after them.
    ///
    /// ```
    /// # use kumiki_parasc::{Config, Engine};
    /// # use kumiki_parasc::op::Read;
    /// let engine = Engine::new(&Config::default())?;
    /// let mut requester = engine.requester()?;
    /// let zero = std::fs::File::open("/dev/zero")?;
    /// let mut next: Vec<_> = (0..100).map(|_| Read::new(&zero, [1; 4096])).collect();
    /// let last = [1, 2, 3];
    /// let (read, sum) = requester.run_while(&mut next, || last.iter().sum::<i32>())?;
    /// assert!(read.iter().all(|bytes| *bytes == Ok(4096)));
    /// assert_eq!(sum, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A child of fork(2) that `meanwhile` has made does not wait for its parent's
    /// threads, and makes none of the calls a second time. There each operation is
    /// as it was before, unless its call was over before `meanwhile`, or may have
    /// begun when the process forked. Then it is complete: a
    /// [`Close`](crate::op::Close) has given its descriptor up, which may still be
    /// open in the child.
    ///
    /// # Errors
    /// As for [`run`](Self::run); `meanwhile` has not been called then.
    /// [`Error::Forked`] in a child of fork(2) that `meanwhile` has made, unless all
    /// calls were over before.
    ///
    /// # Panics
    /// If `meanwhile` does, once all calls have been made, or at once in a child.
    pub fn run_while<O: Operation, R>(
        &mut self,
        operations: &mut [O],
        meanwhile: impl FnOnce() -> R,
    ) -> Result<(Vec<O::Output>, R)> {
        let (mut work, mut done) = (Some(meanwhile), None);
        let mut once = || done = work.take().map(|work| work());
        let outputs = self.execute_operations(operations, Meanwhile::new(&mut once))?;
        Ok((outputs, done.expect("called with every batch")))
    }

    fn execute_operations<O: Operation>(
        &mut self,
        operations: &mut [O],
        mut meanwhile: Meanwhile<'_>,
    ) -> Result<Vec<O::Output>> {
        let mut requests = std::mem::take(&mut self.requests);
        let mut results = std::mem::take(&mut self.results);
        requests.clear();
        requests.extend(operations.iter_mut().map(Operation::request));
        results.resize(requests.len(), 0);
        // SAFETY: an operation vouches for its call, its pointers stay valid
        // while it is borrowed here, and the batch is over before that ends.
        let ran = unsafe { self.check_and_execute(&requests, &mut results, &mut meanwhile) };
        let outputs = ran.map(|()| {
            let made = operations.iter_mut().zip(results.iter().copied());
            // SAFETY: the results of this batch's calls, which have all been made.
            unsafe { complete(made) }
        });
        if let Some(forked) = meanwhile.forked {
            self.give_up(operations, &results, forked);
        }
        (self.requests, self.results) = (requests, results);
        // Not before: a panic goes on from here.
        if outputs.is_ok() || meanwhile.forked.is_some() {
            meanwhile.end();
        }
        outputs
    }

    /// Leaves the batch to the parent of this process, which has begun it.
    ///
    /// Their results were copied page by page, while the parent's threads went on, and after
    /// the table of descriptors (`copy_process`, kernel/fork.c). So a result does not tell
    /// that the child has what the call has written or opened. The offer's word does tell
    /// which calls nobody had claimed, and no descriptor of these was closed.
    #[cold]
    fn give_up<O: Operation>(&self, operations: &mut [O], results: &[i64], forked: Forked) {
        let end = |at: usize| match at.checked_sub(forked.known) {
            None => Some(results[at]),
            Some(at) if at < forked.handed => Some(-i64::from(libc::EOWNERDEAD)),
            Some(_) => None,
        };
        let ended = operations.iter_mut().enumerate();
        let ended = ended.filter_map(|(at, operation)| Some((operation, end(at)?)));
        // SAFETY: results of calls that are over, and of those that are answered as a
        // dead thread's: they may have been made, and nobody is at this process's
        // copy of what they write to.
        drop(unsafe { complete(ended) });
    }

    /// True if this thread makes calls of its batches itself
    /// ([`Config::help`](crate::Config::help)).
    pub fn helps(&self) -> bool {
        self.help
    }

    /// Makes one call, by this very thread: no other is as fast.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    #[inline]
    pub fn call<O: Operation>(&mut self, operation: &mut O) -> Result<O::Output> {
        self.check(0, &operation.request())?;
        Ok(operation.call())
    }

    /// Makes the calls of `requests`; `results` gets what each returned, a
    /// result or `-errno`, unchanged.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::NotAllowed`] or [`Error::TooManyArguments`]
    /// for the first request that may not be made, [`Error::Lengths`] if there is
    /// not a result for each. Nothing has been executed then.
    ///
    /// # Safety
    /// As for [`kumiki_sys::syscall::raw`], for each request; the calls may be
    /// made at the same time, in any order, by any threads of the process, which read
    /// `requests` and write to `results` until this returns: a thread that ends in
    /// between without returning, as by exit(2) in a handler of a signal, must leave
    /// both in place.
    #[inline(always)]
    pub unsafe fn run_raw(&mut self, requests: &[Request], results: &mut [i64]) -> Result<()> {
        if let ([request], [result]) = (requests, &mut *results) {
            if self.is_known(request) || request.head() != self.handed && self.gets_known(request) {
                // All that one call of nearly any kind goes through: it is made
                // where it is asked for.
                // SAFETY: the caller vouches for the call.
                *result = unsafe { call(request) };
                return Ok(());
            }
        }
        aside();
        // SAFETY: as above, for all of them.
        unsafe { self.execute_out_of_line(requests, results) }
    }

    /// Runs as [`check_and_execute`](Self::check_and_execute) beside nothing. Out of the way of one call, which
    /// the compiler would not inline otherwise.
    ///
    /// # Safety
    /// As for [`Requester::run_raw`].
    #[inline(never)]
    unsafe fn execute_out_of_line(
        &mut self,
        requests: &[Request],
        results: &mut [i64],
    ) -> Result<()> {
        if let ([request], [result]) = (requests, &mut *results) {
            if request.head() == self.handed {
                // SAFETY: the caller vouches for the call.
                *result = unsafe { self.hand_over(request) };
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.check_and_execute(requests, results, &mut Meanwhile::default()) }
    }

    #[inline(always)]
    fn is_known(&self, request: &Request) -> bool {
        self.known[usize::from(request.sysnum) % KINDS] == request.head()
    }

    /// True if this thread may and will make the call itself, whatever its arguments. Then so it
    /// will next time, or else hand it over.
    #[cold]
    fn gets_known(&mut self, request: &Request) -> bool {
        if self.rules.is_free(request) {
            let known = &mut self.known[usize::from(request.sysnum) % KINDS];
            *if self.help { known } else { &mut self.handed } = request.head();
        }
        self.is_known(request)
    }

    #[inline(always)]
    fn check(&self, index: usize, request: &Request) -> Result<()> {
        self.rules.check(request).map_err(|denied| Error::denied(denied, index, request))
    }

    /// Looks where this thread runs, and which seats are near.
    fn settle(&mut self) {
        let cpu = rustix::thread::sched_getcpu();
        let seats = &self.core.seats;
        // The nearest seat decides for all; the others are asked when woken.
        let is_lost = self.near.first().is_some_and(|at| seats[*at].post.is_closed());
        if cpu == self.cpu && !is_lost {
            return;
        }
        self.cpu = cpu;
        let usable = |at: &usize| seats[*at].cpu != cpu && !seats[*at].post.is_closed();
        self.near = self.core.near(cpu).iter().copied().filter(usable).collect();
        self.look_for_others();
    }

    /// Looks whether threads of the program serve.
    #[inline(always)]
    fn look_for_own(&mut self) -> bool {
        let callers = &self.core.callers;
        if callers.changes() != self.own_changes {
            self.own_changes = callers.changes();
            self.own = callers.all();
        }
        !self.own.is_empty()
    }

    /// Looks who can make calls beside this thread, and who is awake.
    #[inline(always)]
    fn look_for_others(&mut self) {
        let own = !self.own.is_empty();
        let is_hot = |at: &&usize| self.core.seats[**at].is_hot();
        if own {
            // Nobody knows where they are: they are one helper.
            let hot = self.near.first().is_some_and(|at| is_hot(&at));
            let hot = hot || self.own.iter().any(|caller| caller.bell.looks_soon());
            (self.means.hot, self.means.most) = (usize::from(hot), 2);
        } else {
            self.means.hot = self.near.iter().take_while(is_hot).count();
            self.means.most = (self.near.len() + 1).min(self.core.quota);
        }
        let others = !self.near.is_empty() || own && self.core.spare_cpus() > 0;
        self.means.others = others && self.core.quota > 1;
        self.means.pool = self.core.pool.threads() > 0 || own;
    }

    /// Number of threads that may make calls of a batch of calls that are soon over beside this
    /// one.
    fn others(&self) -> usize {
        let most = self.near.len().max(self.core.parallel - 1);
        (self.near.len() + self.own.len()).min(most)
    }
}

/// Completes every operation with its result, also those behind one that panics:
/// dropped without, it would still have the descriptor that its call has closed.
///
/// # Safety
/// As for [`Operation::complete`], for each.
unsafe fn complete<'a, O: Operation + 'a>(
    made: impl Iterator<Item = (&'a mut O, i64)>,
) -> Vec<O::Output> {
    struct DrainOnDrop<I: Iterator>(I);
    impl<I: Iterator> Drop for DrainOnDrop<I> {
        fn drop(&mut self) {
            self.0.by_ref().for_each(drop);
        }
    }

    // SAFETY: the caller vouches for it; the iterator is past this one whatever
    // comes.
    let complete = |(operation, result): (&mut O, i64)| unsafe { operation.complete(result) };
    let mut rest = DrainOnDrop(made.map(complete));
    rest.0.by_ref().collect()
}

/// Marks a place where the compiler is to put the code that follows aside. A jump just after a
/// system call takes some nanoseconds, as the processor has to find its way anew.
#[cold]
#[inline(always)]
fn aside() {}

/// True if the process has one thread only; so it is taken where that is not known.
fn is_alone() -> bool {
    /// Links of a directory without others in it.
    const LINKS: u64 = 2;
    // A link for each thread (proc_task_getattr, fs/proc/base.c).
    #[allow(clippy::useless_conversion, reason = "of other processors it is a smaller number")]
    let alone = |tasks: rustix::fs::Stat| u64::from(tasks.st_nlink) <= LINKS + 1;
    rustix::fs::stat("/proc/self/task").map_or(true, alone)
}

impl Drop for Requester {
    fn drop(&mut self) {
        self.core.area.close_lane(self.lane);
        // Release: partner is the swap in `new`.
        self.core.sides[self.lane].leased.store(false, Release);
    }
}

#[cfg(test)]
mod tests;
