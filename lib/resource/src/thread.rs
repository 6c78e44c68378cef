//! The kind *thread*: a thread of the program, owned by its core.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::Builder;
use std::time::{Duration, Instant};

use kumiki_crew::with_signals_blocked;

use crate::error::{Error, Result};
use crate::id::Place;
use crate::kind::{About, Kind};

/// A thread that runs one function, on its core's cpu, with signals blocked but those that
/// it raises by what it does itself.
///
/// Destroyed, it is asked to stop; Linux has no way to end a thread that goes on. So a
/// function that takes long looks at its [`Stop`].
#[derive(Debug)]
pub struct Thread {
    shared: Arc<ThreadShared>,
    stack_bytes: usize,
}

/// The function of a thread to be made.
pub struct ThreadSpec {
    run: Box<dyn FnOnce(&Stop) + Send>,
    stack_bytes: usize,
}

impl fmt::Debug for ThreadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadSpec").field("stack_bytes", &self.stack_bytes).finish_non_exhaustive()
    }
}

/// Stack size, as std has it.
const STACK_BYTES: usize = 2 << 20;

impl ThreadSpec {
    /// Makes a thread that runs `run`.
    pub fn new(run: impl FnOnce(&Stop) + Send + 'static) -> Self {
        ThreadSpec { run: Box::new(run), stack_bytes: STACK_BYTES }
    }

    /// Sets a stack of so many bytes, instead of 2 MiB.
    pub fn stack_bytes(self, stack_bytes: usize) -> Self {
        ThreadSpec { stack_bytes, ..self }
    }
}

/// Tells a thread that it is to stop.
#[derive(Debug)]
pub struct Stop(Arc<ThreadShared>);

impl Stop {
    /// True if the resource was destroyed.
    pub fn is_asked(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct ThreadShared {
    stop: AtomicBool,
    state: Mutex<ThreadState>,
    changed: Condvar,
}

#[derive(Clone, Debug, Default)]
enum ThreadState {
    #[default]
    Running,
    Ended,
    Panicked(String),
}

impl ThreadShared {
    fn state(&self) -> MutexGuard<'_, ThreadState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Waits for a thread's end, wherever it is taken to.
#[derive(Clone, Debug)]
pub struct ThreadEnd(Arc<ThreadShared>);

impl ThreadEnd {
    /// Waits for at most `timeout`; whether the thread has ended.
    ///
    /// # Errors
    /// Its function has panicked.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.0.state();
        loop {
            match &*state {
                ThreadState::Running => {}
                ThreadState::Ended => return Ok(true),
                ThreadState::Panicked(text) => {
                    return Err(kind(format!("its function panicked: {text}")));
                }
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.unwrap_or(Duration::from_secs(u32::MAX.into()));
            if left.is_zero() {
                return Ok(false);
            }
            let woken = self.0.changed.wait_timeout(state, left);
            (state, _) = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl Kind for Thread {
    const NAME: &'static str = "thread";
    type Spec = ThreadSpec;
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create(ThreadSpec { run, stack_bytes }: ThreadSpec, (): &mut ()) -> Result<Thread> {
        let shared = Arc::new(ThreadShared::default());
        let theirs = Arc::clone(&shared);
        let body = move || {
            let stop = Stop(Arc::clone(&theirs));
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&stop)));
            *theirs.state() = match outcome {
                Ok(()) => ThreadState::Ended,
                Err(panic) => ThreadState::Panicked(text(&*panic)),
            };
            theirs.changed.notify_all();
        };
        // It begins with its starter's cpus, which is the core's manager.
        let own = std::thread::current();
        let name = format!("{}-thread", own.name().unwrap_or("core"));
        let builder = Builder::new().name(name).stack_size(stack_bytes);
        let started = with_signals_blocked(|| builder.spawn(body));
        started.map_err(|source| Error::System {
            kind: Self::NAME,
            what: format!("a thread with a stack of {stack_bytes} bytes"),
            source,
            way: "; see RLIMIT_NPROC, RLIMIT_AS and the cgroup's pids.max",
        })?;
        Ok(Thread { shared, stack_bytes })
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        let state = match &*self.shared.state() {
            ThreadState::Running => "running",
            ThreadState::Ended => "ended",
            ThreadState::Panicked(_) => "panicked",
        };
        About { state: state.to_owned(), bytes: self.stack_bytes as u64 }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Thread {
    /// End that any thread but the core's own waits for.
    pub fn end(&self) -> ThreadEnd {
        ThreadEnd(Arc::clone(&self.shared))
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text").to_owned()
}

fn kind(text: String) -> Error {
    Error::Kind { kind: Thread::NAME, text }
}
