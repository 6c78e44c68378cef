//! One run: its seed, its end, what is counted, and how it fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::stacks;
use crate::starved::Starved;
use crate::watch::{Pending, Watch};

type Tells = Box<dyn Fn() -> String + Send + Sync>;

/// A run, which all its threads share.
pub(crate) struct Soak {
    name: &'static str,
    seed: u64,
    /// Folder for the findings of a failure.
    folder: PathBuf,
    span: Duration,
    /// Time of its end: milliseconds of `begun`.
    end: AtomicU64,
    counts: Mutex<BTreeMap<String, u64>>,
    watch: Watch,
    /// The processes whose stacks are told.
    processes: Mutex<Vec<u32>>,
    failing: Mutex<()>,
    /// Words that a failure tells beside the stacks.
    tells: OnceLock<Tells>,
    /// Until when answers that say "no" are allowed, as a fault is under way: milliseconds of `begun`.
    excused_until: AtomicU32,
    begun: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Soak {
    pub(crate) fn new(name: &'static str, seed: u64, span: Duration, folder: &Path) -> Soak {
        let begun = Instant::now();
        Soak {
            name,
            seed,
            folder: folder.to_owned(),
            span,
            end: AtomicU64::new(span.as_millis() as u64),
            counts: Mutex::default(),
            watch: Watch::default(),
            processes: Mutex::new(vec![std::process::id()]),
            failing: Mutex::new(()),
            tells: OnceLock::new(),
            excused_until: AtomicU32::new(0),
            begun,
        }
    }

    /// Its time begins now, not when it was made.
    pub(crate) fn begins_now(&self) {
        let end = self.begun.elapsed() + self.span;
        self.end.store(end.as_millis() as u64, Relaxed);
    }

    fn end(&self) -> Duration {
        Duration::from_millis(self.end.load(Relaxed))
    }

    /// True if its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// For so long it still runs.
    pub(crate) fn left(&self) -> Duration {
        self.end().saturating_sub(self.begun.elapsed())
    }

    /// For so long it is over.
    pub(crate) fn overdue(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.end())
    }

    /// A request without an answer is lost after so long, not after some seconds.
    pub(crate) fn lost_after(&self, span: Duration) {
        self.watch.lost_after(span);
    }

    /// Time after which a request without an answer is lost.
    pub(crate) fn lost(&self) -> Duration {
        self.watch.lost()
    }

    /// Sleeps until every request is younger than this: what was asked before has its answer, or
    /// the run fails. For how long a busy machine excuses one is for the guard to say.
    pub(crate) fn until_answered(&self, span: Duration) {
        while self.watch.oldest() > span {
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// A failure tells this, too, before all stacks.
    pub(crate) fn tells_at_failure(&self, tells: impl Fn() -> String + Send + Sync + 'static) {
        // One is enough for each subject.
        let _ = self.tells.set(Box::new(tells));
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Sleeps, but not beyond the end.
    pub(crate) fn sleep(&self, span: Duration) {
        thread::sleep(span.min(self.left()));
    }

    /// Choices of one thread, by the seed.
    pub(crate) fn rng(&self, of: u64) -> Rng {
        Rng::with_seed(self.seed ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn count(&self, what: &str) {
        self.count_many(what, 1);
    }

    pub(crate) fn count_many(&self, what: &str, many: u64) {
        let mut counts = lock(&self.counts);
        match counts.get_mut(what) {
            Some(count) => *count += many,
            None => _ = counts.insert(what.to_owned(), many),
        }
    }

    /// Number of times that it was counted.
    pub(crate) fn counted(&self, what: &str) -> u64 {
        lock(&self.counts).get(what).copied().unwrap_or(0)
    }

    /// Notes a request, until what is returned is dropped.
    pub(crate) fn request(&self, what: impl Into<String>) -> Pending<'_> {
        self.watch.begin(what.into())
    }

    /// The stacks of this process are told if a request has no answer.
    pub(crate) fn watch_process(&self, pid: u32) {
        lock(&self.processes).push(pid);
    }

    pub(crate) fn forget_process(&self, pid: u32) {
        lock(&self.processes).retain(|one| *one != pid);
    }

    fn now_ms(&self) -> u32 {
        self.begun.elapsed().as_millis() as u32
    }

    /// From now on for so long, refusals are what the fault asks for; each may come as late as a
    /// request may be without its answer.
    pub(crate) fn excuse(&self, span: Duration) {
        let span = span + crate::watch::LOST;
        self.excused_until.fetch_max(self.now_ms() + span.as_millis() as u32, Relaxed);
    }

    pub(crate) fn is_excused(&self) -> bool {
        self.now_ms() < self.excused_until.load(Relaxed)
    }

    /// Looks for requests without an answer, until the run is over and none is left.
    pub(crate) fn guard(&self) {
        let mut starved = Starved::default();
        while !self.is_over() || self.watch.pending() > 0 {
            let processes = lock(&self.processes).clone();
            if let Some(late) = self.watch.late(starved.since_last(&processes)) {
                self.fail(&late);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Tells why, with all stacks, and ends the process: threads that wait for ever hold up nothing.
    pub(crate) fn fail(&self, why: &str) -> ! {
        // Of several at once the first one tells.
        let _one = lock(&self.failing);
        let processes = lock(&self.processes).clone();
        eprintln!("soak {}: FAILED after {:?}: {why}", self.name, self.begun.elapsed());
        self.print_counts();
        let told = self.tells.get().map_or(String::new(), |tells| tells());
        let stacks: String = processes.iter().copied().map(stacks::of).collect();
        let stacks = told + &stacks;
        eprint!("{stacks}");
        let kept = self.folder.join(format!("soak-{}-{}.failed", self.name, self.seed));
        match std::fs::write(&kept, format!("{why}\n{stacks}")) {
            Ok(()) => eprintln!("kept in {}", kept.display()),
            Err(error) => eprintln!("not kept in {}: {error}", kept.display()),
        }
        eprintln!("soak {}: FAILED: {why}\nagain by: --seed {}", self.name, self.seed);
        // What has been started for this run ends with it.
        for pid in processes.into_iter().filter(|pid| *pid != std::process::id()) {
            let _ = signal::kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
        std::process::exit(1);
    }

    fn print_counts(&self) {
        for (what, count) in &*lock(&self.counts) {
            println!("  {count:>9} {what}");
        }
        let (longest, what) = self.watch.longest();
        println!("  longest silence {:.0} ms: {what}", longest.as_secs_f64() * 1e3);
    }

    /// Says what was done.
    pub(crate) fn finish(&self) {
        println!("soak {}: fine, --seed {}", self.name, self.seed);
        self.print_counts();
    }
}
