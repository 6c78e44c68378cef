//! The engine: one area, its threads, and who may use it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use kumiki_crew::roll::{self, Look};
use kumiki_wait::{Policy, Threshold};

use crate::config::Config;
use crate::core::{Core, STEP};
use crate::error::Result;
use crate::job::Job;
use crate::op::Raw;
use crate::pending::Pending;
use crate::primitive::{after, fence};
use crate::requester::Requester;
use crate::threads::{self, cancel_all};
use kumiki_calls::Request;

/// Time that a dropped engine waits for its threads to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Parallel system calls: a request area and the processing threads that serve
/// it. Threads start when they are wanted and end by themselves.
///
/// Dropping it ends the threads; one that is inside a call ends when the call
/// returns, and the memory stays until then. A [`Requester`] outlives its
/// engine, and makes all calls itself then.
pub struct Engine {
    pub(crate) core: Arc<Core>,
    _entry: roll::RollEntry,
}

/// Prints it without its area, whose every line would be shown.
impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine. Its threads start later, when they are wanted.
    ///
    /// The first in a process has what a sleep costs measured, by two threads that
    /// live for some milliseconds, with all signals but `SIGSYS` blocked; one of
    /// them may still be ending when this returns. An engine without cpus and
    /// without threads for calls that sleep starts none, and leaves that to whoever
    /// needs it first: a requester, a thread that [processes](Self::process), one
    /// that waits for a submitted request.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for a value out of range;
    /// [`Error::Sys`](crate::Error::Sys) for a chosen cpu that is offline, or if
    /// memory is exhausted;
    /// [`Error::Wait`](crate::Error::Wait) if a way to wait was chosen that this
    /// machine lacks.
    pub fn new(config: &Config) -> Result<Self> {
        let core = Arc::new(Core::new(config)?);
        // Tells now whether the policy works here, whatever its threshold, for which
        // nothing is to be measured.
        kumiki_wait::Waiter::new(&Policy { threshold: Threshold::Ticks(0), ..config.policy })?;
        let theirs = Arc::downgrade(&core);
        let _entry = roll::enter("engine", None, move || look(theirs.upgrade().as_deref()));
        Ok(Engine { core, _entry })
    }

    /// A lane of its own for a thread that makes requests.
    ///
    /// # Errors
    /// [`Error::NoLane`](crate::Error::NoLane) if all are leased.
    pub fn requester(&self) -> Result<Requester> {
        Requester::new(Arc::clone(&self.core))
    }

    /// Places an operation's request for any thread, and goes on.
    ///
    /// The call is made by a processing thread, in no order with others. If the
    /// kernel gives no thread at all, and in a child of fork(2), the caller
    /// makes it before this returns (and what another thread has left to the one
    /// that was to be started). What may not be made, and what was submitted
    /// to an engine that has been shut down, ends as [`Failed`](crate::Failed)
    /// with the operation.
    ///
    /// What the caller has written before, the call finds, and what it has written is there
    /// for whoever is given its end.
    ///
    /// At most [`Config::threads`] calls that block, besides one a cpu, are made
    /// at the same time; more wait for one of these to end.
    ///
    /// ```
    /// use kumiki_parasc::op::Read;
    /// use kumiki_parasc::{Config, Engine};
    ///
    /// let engine = Engine::new(&Config::default())?;
    /// let zero = std::fs::File::open("/dev/zero")?;
    /// let pending = engine.submit(Read::new(zero, vec![1; 4096].into_boxed_slice()));
    /// // Here it does something else; a future, it could be awaited too.
    /// let completed = pending.wait().expect("allowed, and the engine is there");
    /// assert_eq!(completed.output, Ok(4096));
    /// assert_eq!(completed.operation.filled(), [0; 4096]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Aborts
    /// If there is no memory for the request, which is allocated, Rust's allocator ends
    /// the process. A batch like one before takes none ([`Requester::run_raw`]; for
    /// [`Requester::run`] a list of outputs), and goes on. A thread that starts for
    /// either takes some: if there is enough for its stack (the C library keeps those of
    /// threads that have ended) but not for its first steps, some 40 KiB more, as it may
    /// be under RLIMIT_AS, the standard library ends the process.
    pub fn submit<O: Job + Send + 'static>(&self, operation: O) -> Pending<O> {
        Pending::submit(&self.core, operation, false)
    }

    /// True if submitted requests wait that no thread has begun: for an instant while threads are
    /// called, and for as long as all are in calls that do not return.
    pub fn waits(&self) -> bool {
        self.core.queues.iter().any(|queue| queue.any())
    }

    /// Submits as [`submit`](Self::submit), for any system call.
    ///
    /// # Safety
    /// As for [`kumiki_sys::syscall::raw`]. What the arguments point to must be
    /// there until the call is over, also if the [`Pending`] is dropped before:
    /// only its end, or [`Pending::cancel`], tells that the kernel does not touch
    /// it any more.
    pub unsafe fn submit_raw(&self, request: Request) -> Pending<Raw> {
        // SAFETY: the caller vouches for the call.
        Pending::submit(&self.core, unsafe { Raw::of(request) }, false)
    }

    /// Makes the calling thread a processing thread, which serves all requests
    /// of the engine until that is shut down. The paper's `parasc_proc`.
    ///
    /// It serves batches and single requests, beside the engine's own threads if there are
    /// any. As many as have a cpu to spare spin for the next batch; all others sleep until
    /// they are called, mostly for calls that sleep. An engine without cpus and without
    /// threads has no others:
    ///
    /// ```
    /// use kumiki_parasc::op::Fsync;
    /// use kumiki_parasc::{Config, CpuSet, Engine};
    /// # let files = (0..8).map(|_| tempfile::tempfile()).collect::<Result<Vec<_>, _>>()?;
    ///
    /// let config = Config { cpus: Some(CpuSet::new()), threads: 0, ..Config::default() };
    /// let engine = Engine::new(&config)?;
    /// let mut requester = engine.requester()?;
    /// std::thread::scope(|scope| {
    ///     (0..3).for_each(|_| drop(scope.spawn(|| engine.process())));
    ///     let synced = requester.run(&mut files.iter().map(Fsync::new).collect::<Vec<_>>());
    ///     engine.shut_down_timeout(std::time::Duration::ZERO);
    ///     assert!(synced?.iter().all(Result::is_ok));
    ///     Ok::<(), kumiki_parasc::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Its signals are handled at calls and while it waits, and blocked in between: a
    /// handler that interrupts a call makes it answer `EINTR`, as everywhere. The thread may
    /// die in here, by exit(2) in a handler, or by pthread_cancel(3), which takes effect
    /// between two calls. The request that it was at is then answered `EOWNERDEAD`: the call was
    /// executed, perhaps, and will not be executed again. A request that it had
    /// not begun is left to other threads.
    pub fn process(&self) {
        threads::process(&self.core);
    }

    /// Ends the engine's threads and waits for them for at most `timeout`.
    /// Returns whether all have ended: one that is inside a call cannot, and the one
    /// that supervises stays while another that may die is inside a call of a submitted
    /// or placed request. Threads of the program that [process](Self::process) requests
    /// are told to stop, and not waited for.
    ///
    /// Submitted requests that nobody has begun end as [`Error::ShutDown`], those placed
    /// by hand get `-ECANCELED`. Requesters go on, and make all calls themselves.
    ///
    /// [`Error::ShutDown`]: crate::Error::ShutDown
    pub fn shut_down_timeout(&self, timeout: Duration) -> bool {
        let core = &self.core;
        core.area.terminate();
        if !core.process.is_current() {
            // A child of fork(2) has none of the threads.
            return true;
        }
        core.wake_all();
        // Partner: the fence in `send`.
        fence(SeqCst);
        cancel_all(core);
        let deadline = after(timeout);
        loop {
            // One that has died does not say so.
            core.repair();
            let left = deadline.saturating_duration_since(Instant::now());
            let alive = core.crew.wait(left.min(STEP));
            if alive == 0 || left.is_zero() {
                return alive == 0;
            }
        }
    }

    /// Number of threads that the engine has at the moment, those of the program that
    /// [process](Self::process) requests not counted: none in a child of fork(2).
    pub fn threads(&self) -> usize {
        if !self.core.process.is_current() {
            // Nor is the lock the child's: it may have been held at the fork.
            return 0;
        }
        self.core.crew.alive()
    }
}

/// Shows an engine to who looks on.
fn look(core: Option<&Core>) -> Look {
    let Some(core) = core else { return Look::default() };
    let state = match core.crew.alive() {
        0 => "idle".to_owned(),
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    Look { state, bytes: size_of_val(core) as u64, calls: 0 }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut_down_timeout(PATIENCE);
    }
}
