//! Threads that nobody joins: one may be inside a call that never returns.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::life::Life;
use kumiki_sys::signals::with_signals_blocked;

/// Time for which no thread is asked for after the kernel has refused one. Asking in vain takes
/// tens of microseconds (a stack is mapped and unmapped), and whoever does so wanted to save some.
const PAUSE: Duration = Duration::from_millis(100);

/// Threads that are counted as long as they are there, and end by themselves.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    state: Mutex<CrewState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct CrewState {
    alive: usize,
    /// No thread is asked for before: the kernel has just refused one.
    refused_until: Option<Instant>,
}

impl Crew {
    /// Starts a thread of this name, which runs on `cpus`, with its signals
    /// [blocked](with_signals_blocked). As long as it lives it holds `life`, which tells
    /// if it dies: then it is to be [counted as gone](Self::lost). Its starter does not
    /// wait for it.
    ///
    /// # Errors
    /// The kernel's, which gives no thread, or has given none just now.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: String,
        cpus: &CpuSet,
        life: &Arc<Life>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.state();
        if state.refused_until.is_some_and(|until| Instant::now() < until) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.alive += 1;
        drop(state);
        let (crew, its, life) = (Arc::clone(self), cpus.clone(), Arc::clone(life));
        let body = move || {
            // Also when something in it panics.
            let _counted = Counted(&crew);
            let _held = life.hold();
            // Refused: then where it may run.
            let _ = affinity::request(None, &its);
            run();
        };
        let spawn = || Builder::new().name(name).spawn(body);
        let spawned = with_signals_blocked(|| affinity::reaching(cpus, spawn));
        // It may stand behind its starter, who is busy: until its time slice ends.
        let move_on = |thread: JoinHandle<()>| {
            let _ = affinity::request_for(&thread, cpus);
        };
        spawned.map(move_on).inspect_err(|_| {
            self.lost();
            self.state().refused_until = Instant::now().checked_add(PAUSE);
        })
    }

    /// Number of threads.
    pub(crate) fn alive(&self) -> usize {
        self.state().alive
    }

    /// One has died, and does not say so.
    pub(crate) fn lost(&self) {
        self.state().alive -= 1;
        self.ended.notify_all();
    }

    /// Waits until none is left, for so long at most; how many are.
    pub(crate) fn wait(&self, timeout: Duration) -> usize {
        let state = self.state();
        let left = self.ended.wait_timeout_while(state, timeout, |state| state.alive > 0);
        left.unwrap_or_else(|poisoned| poisoned.into_inner()).0.alive
    }

    fn state(&self) -> std::sync::MutexGuard<'_, CrewState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A thread that is counted as alive.
struct Counted<'a>(&'a Crew);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.lost();
    }
}

/// Guard that runs this where a thread unwinds while it serves: nobody must count on a thread
/// for ever that is not there.
pub(crate) struct Unwinding<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for Unwinding<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Starts a thread that waits for `told`, and says how it is bound.
    fn start(crew: &Arc<Crew>, told: mpsc::Receiver<()>) -> io::Result<mpsc::Receiver<String>> {
        let (tell, bound) = mpsc::channel();
        let cpus = CpuSet::from_iter(affinity::current().unwrap().first());
        crew.start("crew-test".to_owned(), &cpus, &Arc::default(), move || {
            tell.send(affinity::current().unwrap().to_string()).unwrap();
            let _ = told.recv();
        })?;
        Ok(bound)
    }

    #[test]
    fn its_threads_are_counted_and_waited_for_until_they_end() {
        let crew = Arc::new(Crew::default());
        let (end, ends) = mpsc::channel();
        let bound = start(&crew, ends).unwrap().recv().unwrap();
        assert_eq!(bound, affinity::current().unwrap().first().unwrap().to_string());
        assert_eq!((crew.alive(), crew.wait(Duration::from_millis(1))), (1, 1));
        drop(end);
        assert_eq!(crew.wait(Duration::from_secs(60)), 0);
    }

    #[test]
    fn after_a_refusal_no_thread_is_asked_for_for_a_while() {
        let crew = Arc::new(Crew::default());
        let far = Instant::now() + Duration::from_secs(1000);
        crew.state().refused_until = Some(far);
        let refused = start(&crew, mpsc::channel().1).unwrap_err();
        assert_eq!((refused.kind(), crew.alive()), (io::ErrorKind::WouldBlock, 0));
        crew.state().refused_until = Some(Instant::now());
        start(&crew, mpsc::channel().1).unwrap();
        assert_eq!(crew.wait(Duration::from_secs(60)), 0);
    }

    #[test]
    fn one_that_dies_is_found_by_its_life_and_counted_as_lost() {
        let (crew, life) = (Arc::new(Crew::default()), Arc::new(Life::default()));
        let cpus = affinity::current().unwrap();
        let die = || {
            // SAFETY: ends the thread alone.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        };
        crew.start("crew-test".to_owned(), &cpus, &life, die).unwrap();
        while !life.has_died() {
            std::thread::yield_now();
        }
        assert_eq!(crew.alive(), 1);
        crew.lost();
        assert_eq!(crew.wait(Duration::ZERO), 0);
    }
}
