//! A shadow: this thread, and a helper beside it.

use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_crew::{JoinHandle, roll};
use kumiki_slot::{Request, job};
use kumiki_sys::affinity::Bound;
use kumiki_sys::fork::Process;
use kumiki_sys::here::Here;
use kumiki_sys::pause::pause;
use kumiki_sys::topology::{Relation, Topology};
use kumiki_wait::{Policy, Sleep, Threshold, TimedOut, Waiter, barrier};

use crate::channel::Channel;
use crate::cpus::Pair;
use crate::error::{Error, Result};
use crate::helper;
use crate::primitive::{look_again, now, spin_loop};
use kumiki_wait::Deadline;

/// Polls of the line before a join asks whether the helper has begun at all:
/// some microseconds, several times what a request needs to the farthest cpu.
const GRACE_POLLS: u32 = if cfg!(sim) { 64 } else { 4096 };
/// Polls of the grace period where a PAUSE follows each poll, which takes 30 times as long and
/// more.
const PAUSED_GRACE_POLLS: u32 = 64;
/// Added patience of a join if the one before has taken its request back, twice as long each time.
/// Asking interrupts the helper, in some virtual machines for tens of microseconds: with the same
/// patience the next join would ask while it is still away for that, and so on for ever, each
/// request taken back. Over once a helper that was late has answered.
const LATE: [Duration; 2] = [Duration::from_micros(2), Duration::from_micros(32)];
/// Pause between two checks whether a helper has ended; about as long as its end takes.
const END_PAUSE: Duration = Duration::from_micros(50);

/// Cpu and way of waiting of a shadow, or of one helper of a team.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// The main thread's cpu. If it is not bound, the cpu on which the last fork found
    /// it.
    pub main_cpu: usize,
    /// The helper's cpu, to which it is bound.
    pub helper_cpu: usize,
    /// The nearest thing that the two share: a core, a cache, a node, …
    pub relation: Relation,
    /// Way to sleep after it has spun for long enough.
    pub sleep: Sleep,
    /// True if a fork needs no memory fence (private expedited membarrier is available).
    pub asymmetric: bool,
}

struct Helper {
    thread: JoinHandle,
    process: Process,
    /// Apart, so that what a fork needs lies together.
    pair: Box<Pair>,
    entry: roll::RollEntry,
}

impl Helper {
    /// True on the main thread's own core: a spinning thread slows the other down.
    fn is_near(&self) -> bool {
        self.pair.relation <= Relation::Sibling
    }
}

/// Drops the captures of a job that was packed into this line and has not run.
pub(crate) type DropJob = unsafe fn(*mut Request);

/// This thread and its helper; see the [crate's documentation](crate).
///
/// The helper is bound to its cpu, the calling thread is not, unless
/// [asked](crate::Builder::bind_main): threads and processes that it starts may run
/// wherever they could before. Each fork checks where this thread runs, which is one load
/// ([`Here`]). If the kernel has moved it onto the helper's cpu, or to a cpu that has a
/// nearer free neighbour, the fork first moves the helper beside it: at once in the first
/// case, at most once a millisecond in the second. A helper whose cpu was
/// [chosen](crate::Builder::helper_cpu) stays there.
///
/// Dropping it waits for a job that runs, whose panic nobody gets then, as that of a
/// thread that nobody joins, and ends the helper; [`Shadow::destroy_timeout`] waits no
/// longer than it is told.
///
/// A job may make a shadow of its own, whose main thread is the helper, on its cpu. Where
/// no other cpu is free that needs [`Builder::share`](crate::Builder::share), or [`Shadow::inline`]; it is
/// [`Error::NoFreeCpu`] otherwise. [`Scope::fork`](crate::Scope::fork) says more of jobs. Threads and
/// processes that a job starts inherit the helper's one cpu: start them in the main
/// thread, or give them their cpus.
///
/// What would be errors at run time in another language are refused by the
/// compiler. A job cannot use the shadow that it was forked on:
///
/// ```compile_fail,E0277
/// let mut shadow = kumiki_shadow::Shadow::inline();
/// shadow.fork(move || _ = shadow.fork(|| ())); // stays in its thread
/// ```
///
/// ```compile_fail,E0499
/// let mut shadow = kumiki_shadow::Shadow::inline();
/// shadow.scope(|scope| {
///     let job = scope.fork(|| ());
///     let second = scope.fork(|| ()); // one at a time
///     job.join();
/// });
/// ```
///
/// A shadow cannot be destroyed while a job that borrows runs:
///
/// ```compile_fail,E0505
/// let mut shadow = kumiki_shadow::Shadow::inline();
/// shadow.scope(|scope| {
///     let job = scope.fork(|| ());
///     drop(shadow);
///     job.join();
/// });
/// ```
pub struct Shadow {
    channel: Arc<Channel>,
    helper: Option<Helper>,
    waiter: Waiter,
    /// Two hardware threads of one core: the spinning one leaves the other its share.
    relax: bool,
    /// Added patience of a join, see [`LATE`].
    late: Duration,
    /// Cpu of the main thread.
    here: Here,
    /// Main thread's cpu when the helper was put beside it.
    main_cpu: usize,
    /// Number of the next request.
    next: u64,
    /// State of the last request, if it is outstanding: handed over and not joined.
    outstanding: Option<At>,
    /// True if the request was forked without a scope, by [`Shadow::fork`].
    pub(crate) unscoped: Option<DropJob>,
    /// The calling thread's binding, if that was asked for.
    _bound: Option<Bound>,
    /// Bound to the thread that made it.
    _thread: PhantomData<*mut ()>,
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// Handed to the helper.
    Helper,
    /// The request is in the line, to be run by this thread: there is no helper.
    Here,
    /// The request has run, with this success; the result is in the line.
    Ended(bool),
}

impl Shadow {
    /// A shadow without a helper: every job runs in the calling thread, when it is
    /// joined. For machines with one cpu, and for comparison.
    pub fn inline() -> Shadow {
        // It never waits: nothing to choose, to read from the environment or to
        // measure.
        let never =
            Policy { threshold: Threshold::Infinite, sleep: Sleep::Futex, ..Policy::default() };
        let waiter = Waiter::new(&never).expect("every machine has futexes");
        Shadow::new(Arc::new(Channel::new()), None, waiter)
    }

    fn new(channel: Arc<Channel>, helper: Option<Helper>, waiter: Waiter) -> Shadow {
        let (here, main_cpu) = (Here::of_this_thread(), helper.as_ref().map_or(0, |h| h.pair.main));
        let (outstanding, unscoped) = (None, None);
        let (_bound, _thread) = (None, PhantomData);
        let relax = helper.as_ref().is_some_and(Helper::is_near);
        Shadow {
            channel,
            helper,
            waiter,
            relax,
            late: Duration::ZERO,
            here,
            main_cpu,
            next: Channel::FIRST,
            outstanding,
            unscoped,
            _bound,
            _thread,
        }
    }

    /// A shadow on a pair of cpus. The calling thread is on the first of them, where this
    /// shadow or a team may have bound it.
    pub(crate) fn beside(
        pair: Pair,
        bound: Option<Bound>,
        policy: &Policy,
        deadline: Deadline,
    ) -> Result<Shadow> {
        let process = Process::current()?;
        let waiter = Waiter::new(policy)?;
        // Decided before a fork needs it, also for those that never sleep: until then
        // each costs a full fence.
        barrier::is_asymmetric();
        let channel = Arc::new(Channel::new());
        let thread = helper::start(pair.helper, policy, &channel, deadline)?;
        let entry = helper::enter(pair.helper, &channel);
        let helper = Helper { thread, process, pair: Box::new(pair), entry };
        let mut shadow = Shadow::new(channel, Some(helper), waiter);
        shadow._bound = bound;
        Ok(shadow)
    }

    /// Cpu and way of waiting; `None` for a shadow without a helper.
    pub fn info(&self) -> Option<Info> {
        let helper = self.helper.as_ref()?;
        Some(Info {
            main_cpu: helper.pair.main,
            helper_cpu: helper.pair.helper,
            relation: helper.pair.relation,
            sleep: self.waiter.sleep(),
            asymmetric: barrier::is_asymmetric(),
        })
    }

    /// The machine's cpus and caches at its creation; `None` without a helper.
    pub fn topology(&self) -> Option<&Topology> {
        self.helper.as_ref().map(|helper| helper.pair.topology())
    }

    /// True if another shadow's helper is nearer to this one's than to the main thread.
    pub(crate) fn is_nearer(&self, other: &Shadow) -> bool {
        let helpers = self.helper.as_ref().zip(other.helper.as_ref());
        helpers.is_some_and(|(ours, theirs)| {
            let between = ours.pair.topology().relation(ours.pair.helper, theirs.pair.helper);
            between < theirs.pair.relation
        })
    }

    /// The process in which its helper is; `None` without one.
    pub(crate) fn home(&self) -> Option<Process> {
        self.helper.as_ref().map(|helper| helper.process)
    }
}

/// One request from beginning to end; `scope` gives it its types.
impl Shadow {
    /// True if there is a helper, in this process.
    #[inline(always)]
    fn has_helper(&self) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.process.is_current())
    }

    /// Hands `job` over.
    #[inline(always)]
    pub(crate) fn submit<F, R>(&mut self, job: F)
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        if self.outstanding.is_some() {
            self.make_way();
        }
        let has_helper = self.has_helper();
        if has_helper && !self.here.is(self.main_cpu) {
            self.follow();
        }
        self.hand_over(has_helper, job);
    }

    /// Hands `job` over where the helper is, for a thread that may not be the main one.
    #[inline(always)]
    pub(crate) fn submit_for_main<F, R>(&mut self, job: F)
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.hand_over(self.has_helper(), job);
    }

    /// Puts `job` into the line, which has none.
    #[inline(always)]
    fn hand_over<F, R>(&mut self, has_helper: bool, job: F)
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let Self { channel, next, outstanding, .. } = self;
        let (channel, n) = (&**channel, *next);
        *next += 1;
        // SAFETY: no request is outstanding, so the line is this thread's.
        unsafe { job::pack(channel.request(), job) };
        *outstanding = Some(if has_helper { At::Helper } else { At::Here });
        if has_helper {
            channel.submit(n);
        }
    }

    /// Number of the last request.
    #[inline(always)]
    fn last(&self) -> u64 {
        self.next - 1
    }

    /// The main thread has been moved: puts the helper beside it.
    #[cold]
    #[inline(never)]
    fn follow(&mut self) {
        let here = self.here.cpu();
        self.see(here);
        self.improve(here);
    }

    /// Notes that the main thread is on `here`.
    pub(crate) fn see(&mut self, here: usize) {
        if let Some(helper) = &mut self.helper {
            helper.pair.see(here);
        }
    }

    /// Moves the helper to a better cpu for a main thread that was seen on `here`. If it
    /// is to stay for now, the next fork comes here again.
    pub(crate) fn improve(&mut self, here: usize) {
        let Some(helper) = &mut self.helper else { return };
        let Helper { thread, pair, entry, .. } = helper;
        if !pair.is_settled() {
            // Refused: it stays, and is as late as it is.
            pair.improve(|cpu| {
                let moved = thread_moved(thread, cpu);
                if moved {
                    entry.moved(cpu);
                }
                moved
            });
            self.main_cpu = here;
        }
        self.relax = helper.is_near();
    }

    /// Cpu of the main thread, if that is not where it was when a helper was last put beside it.
    #[inline(always)]
    pub(crate) fn elsewhere(&self) -> Option<usize> {
        (self.has_helper() && !self.here.is(self.main_cpu)).then(|| self.here.cpu())
    }

    /// Ticks of the time stamp counter until the helper would begin, beyond the way of a
    /// cache line: nothing while it spins, a wake while it sleeps, infinite without one.
    /// For callers that decide whether to fork.
    pub fn wake_ticks(&self) -> u64 {
        if !self.has_helper() {
            return u64::MAX;
        }
        if self.channel.helper.is_asleep() { kumiki_wait::sleep_cost_ticks() } else { 0 }
    }

    /// True if a forked job has not been joined yet.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.outstanding.is_some()
    }

    /// True if the outstanding request was handed to a helper that did not come along through
    /// fork(2), and had not ended by then: a result that was there is in the line, and came along
    /// with it.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.outstanding == Some(At::Helper) && !self.has_helper() && !self.has_ended()
    }

    /// True if the outstanding request has run.
    pub(crate) fn has_ended(&self) -> bool {
        self.outstanding.is_some_and(|at| match at {
            At::Helper => self.channel.done(self.last()).is_some(),
            At::Here => false,
            At::Ended(_) => true,
        })
    }

    /// Waits for the outstanding request and moves its result out.
    ///
    /// # Safety
    /// There is one, and its result is an `R`.
    #[inline(always)]
    pub(crate) unsafe fn finish<R>(&mut self) -> thread::Result<R> {
        let success = self.wait();
        self.outstanding = None;
        // SAFETY: the caller names the type; `wait` says how it ended, and that
        // the line is this thread's again; with `outstanding` gone the result
        // is not taken twice.
        unsafe { job::unpack(self.channel.request(), success) }
    }

    /// Waits for the outstanding request and drops its result, or what it panicked
    /// with. In a child of fork(2), where nobody runs it, it is forgotten.
    ///
    /// # Safety
    /// As [`Shadow::finish`].
    pub(crate) unsafe fn discard<R>(&mut self) {
        if self.is_orphaned() {
            return drop(self.settle());
        }
        // SAFETY: the caller's promise.
        drop(unsafe { self.finish::<R>() });
    }

    /// Takes the outstanding request back, and drops what it captured; `false` if the helper has
    /// begun it, or in a child of fork(2).
    ///
    /// # Safety
    /// There is one, and `drop_job` drops a job of its type.
    pub(crate) unsafe fn cancel_outstanding(&mut self, drop_job: DropJob) -> bool {
        let is_back = match self.outstanding {
            Some(At::Helper) => self.has_helper() && self.channel.take_back(self.last()),
            Some(At::Here) => true,
            Some(At::Ended(_)) | None => false,
        };
        if is_back {
            self.outstanding = None;
            // SAFETY: nobody has begun it nor ever will, and the line is this thread's again; the
            // caller names the type.
            unsafe { drop_job(self.channel.request()) };
        }
        is_back
    }

    /// Waits for the outstanding request; `true` if it did not panic.
    #[inline(always)]
    fn wait(&mut self) -> bool {
        if self.outstanding == Some(At::Helper) {
            let n = self.last();
            let polls = if self.relax { PAUSED_GRACE_POLLS } else { GRACE_POLLS };
            for _ in 0..polls {
                if let Some(success) = self.channel.done(n) {
                    return success;
                }
                if self.relax {
                    spin_loop();
                } else {
                    look_again();
                }
            }
        }
        self.wait_long(None).unwrap_or_else(|_| unreachable!("no deadline was given"))
    }

    /// Waits for the helper until the deadline. Without one, runs the request
    /// here if the helper has not begun it, else waits; how long that takes the
    /// request decides.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_long(
        &mut self,
        deadline: Option<Instant>,
    ) -> std::result::Result<bool, TimedOut> {
        let (n, at) = (self.last(), self.outstanding.expect("a request is outstanding"));
        assert!(!self.is_orphaned(), "{}", Error::Orphaned);
        let Self { channel, waiter, late, .. } = self;
        let done = || channel.done(n);
        let success = match (at, deadline) {
            (At::Ended(success), _) => success,
            (At::Helper, Some(deadline)) => {
                waiter.wait_deadline(&channel.main, channel.word(), deadline, done)?
            }
            (At::Helper, None) => {
                let answer = spin(*late, done).or_else(|| {
                    let begun = !channel.take_back(n);
                    begun.then(|| waiter.wait(&channel.main, channel.word(), done))
                });
                let [least, most] = LATE;
                *late = answer.map_or((*late * 2).clamp(least, most), |_| Duration::ZERO);
                // SAFETY: the request was not begun by the helper, and never will be, as
                // it was taken back from it.
                answer.unwrap_or_else(|| unsafe { job::execute(channel.request()) })
            }
            // SAFETY: the request in the line was never handed to a helper.
            (At::Here, _) => unsafe { job::execute(channel.request()) },
        };
        self.outstanding = Some(At::Ended(success));
        Ok(success)
    }

    /// Ends the outstanding request for another one. What a job without a scope, which
    /// nobody can join any more then, has panicked with continues here.
    #[cold]
    #[inline(never)]
    fn make_way(&mut self) {
        if let Err(panic) = self.settle() {
            resume_unwind(panic);
        }
    }

    /// Ends the outstanding request, whose handle was forgotten. What it holds
    /// stays undropped, as with anything forgotten; without a scope there is no
    /// handle, and it ends as if it were joined.
    #[cold]
    pub(crate) fn settle(&mut self) -> thread::Result<()> {
        if self.unscoped.take().is_some() && !self.is_orphaned() {
            // SAFETY: an unscoped job is outstanding, and such a job returns
            // nothing.
            return unsafe { self.finish() };
        }
        if self.outstanding == Some(At::Helper) && self.has_helper() {
            self.wait();
        }
        self.outstanding = None;
        Ok(())
    }
}

impl Shadow {
    /// Tells the helper to end, and waits for it, until the deadline if there is one.
    /// One that does not get its cpu until then ends when it does.
    pub(crate) fn end(&mut self, deadline: Deadline) {
        let Some(helper) = self.helper.take() else { return };
        if !helper.process.is_current() {
            // The helper did not come along through fork(2): nothing to end.
            // Its handle must not be joined either.
            std::mem::forget(helper.thread);
            return;
        }
        self.channel.close(self.next);
        if deadline.at().is_some() {
            // No join then: what is left to do for one that has finished may still be
            // held up.
            while !helper.thread.is_finished() && !deadline.passed() {
                pause(END_PAUSE);
            }
            return;
        }
        // It catches the panics of jobs, so it does not panic.
        let _ = helper.thread.join();
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        /// The helper ends, too, if what a job has panicked with panics when dropped.
        struct End<'a>(&'a mut Shadow);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.end(Deadline::NEVER);
            }
        }
        drop(End(self).0.settle());
    }
}

/// Moves a helper; `false` if the kernel refuses.
#[cfg(not(sim))]
fn thread_moved(thread: &JoinHandle, cpu: usize) -> bool {
    kumiki_sys::affinity::move_bound(thread, cpu).is_ok()
}

/// Threads of a simulated machine stay where they are.
#[cfg(sim)]
fn thread_moved(_: &JoinHandle, _: usize) -> bool {
    false
}

/// Asks for so long.
fn spin<T>(time: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = now();
    while now().saturating_duration_since(begin) < time {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        spin_loop();
    }
    None
}
