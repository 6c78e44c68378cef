//! What all workers know: settings, the password, counters.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use anyhow::Result;

pub use crate::clock::now;
use crate::counters::{Counters, Sums};
use crate::kept::Kept;
use crate::password::Password;

/// The version of Redis whose commands these are. Clients ask for it: redis-py and jedis keep no
/// copies of what a server below 7.4 tells them.
pub const REDIS_VERSION: &str = "7.4.0";
/// Keys that clients follow, at most, if nothing is said.
const FOLLOWED: usize = 1_000_000;
/// This program's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Settings that can be changed while it runs, and what is known of the process.
#[derive(Debug)]
pub struct Shared {
    /// Counters of each worker.
    pub counters: Vec<Counters>,
    /// Bytes of everything that clients can make it keep.
    pub memory: AtomicUsize,
    /// Bytes of one shard's keys and values, of those.
    pub shard_limit: Arc<AtomicUsize>,
    /// Clients of all workers, at most.
    pub clients: AtomicUsize,
    /// Seconds after which an idle client is closed; 0: never.
    pub timeout: AtomicU64,
    /// Keys that clients follow, at most; 0: as many as memory allows.
    pub followed: AtomicUsize,
    /// True if others than this machine's are refused while there is no password.
    pub is_protected: AtomicBool,
    /// Bytes of a word, at most.
    pub longest: usize,
    /// Addresses at which clients come.
    pub bind: Vec<String>,
    /// The port; 0: none.
    pub port: AtomicUsize,
    /// The Unix socket.
    pub unix: Option<PathBuf>,
    /// True if the server is to end.
    pub ends: AtomicBool,
    /// A number of this process, of 40 digits.
    pub run_id: String,
    /// The log that outlives the process.
    pub(crate) kept: Option<Arc<Kept>>,
    start: Instant,
    /// Time from then on at which memory was last given back, ns.
    gave_back: AtomicU64,
    password_file: Option<PathBuf>,
    password: RwLock<Option<Password>>,
    has_password: AtomicBool,
    wrong_passwords: AtomicU64,
    /// Sums when they were last set to nought.
    zero: RwLock<Sums>,
}

/// Settings that are given when the server starts.
#[derive(Clone, Debug, Default)]
pub struct StartSettings {
    /// Number of workers.
    pub workers: usize,
    /// Bytes of everything.
    pub memory: usize,
    /// Clients of all workers.
    pub clients: usize,
    /// Seconds after which an idle client is closed.
    pub timeout: u64,
    /// True if it is protected.
    pub is_protected: bool,
    /// Bytes of a word.
    pub longest: usize,
    /// Addresses at which clients come.
    pub bind: Vec<String>,
    /// The Unix socket.
    pub unix: Option<PathBuf>,
    /// The file of the password.
    pub password_file: Option<PathBuf>,
    /// The log in which keys are kept.
    pub(crate) kept: Option<Arc<Kept>>,
}

impl Shared {
    /// One with these settings.
    ///
    /// # Errors
    /// The password cannot be read.
    pub fn new(given: StartSettings) -> Result<Shared> {
        let shared = Shared {
            counters: (0..given.workers).map(|_| Counters::default()).collect(),
            memory: AtomicUsize::new(0),
            shard_limit: Arc::default(),
            clients: AtomicUsize::new(given.clients),
            timeout: AtomicU64::new(given.timeout),
            followed: AtomicUsize::new(FOLLOWED),
            is_protected: AtomicBool::new(given.is_protected),
            longest: given.longest,
            bind: given.bind,
            port: AtomicUsize::new(0),
            unix: given.unix,
            ends: AtomicBool::new(false),
            run_id: run_id(),
            kept: given.kept,
            start: Instant::now(),
            gave_back: AtomicU64::new(0),
            password_file: given.password_file,
            password: RwLock::new(None),
            has_password: AtomicBool::new(false),
            wrong_passwords: AtomicU64::new(0),
            zero: RwLock::new(Sums::default()),
        };
        shared.set_memory(given.memory);
        shared.read_password()?;
        Ok(shared)
    }

    /// Sets the bytes of everything; keys that are set from now on are within them.
    pub fn set_memory(&self, bytes: usize) {
        self.memory.store(bytes, Relaxed);
        self.shard_limit.store(self.key_memory() / self.counters.len().max(1), Relaxed);
    }

    /// True if a worker has begun to give back memory since then, of all of them.
    pub(crate) fn was_given_back_since(&self, time: Instant) -> bool {
        self.gave_back.load(Relaxed) > self.after_start(time)
    }

    /// A worker gives back what is free now.
    pub(crate) fn given_back_from(&self, now: Instant) {
        self.gave_back.fetch_max(self.after_start(now), Relaxed);
    }

    fn after_start(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// Reads the password's file anew; one that cannot be read changes nothing.
    ///
    /// # Errors
    /// There is none, or nothing in it.
    pub fn read_password(&self) -> Result<()> {
        let Some(file) = &self.password_file else { return Ok(()) };
        let password = Password::of_file(file)?;
        // Nobody panics while holding it: it is set by one statement.
        *self.password.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(password);
        self.has_password.store(true, Relaxed);
        Ok(())
    }

    /// True if clients have to say a password.
    pub fn has_password(&self) -> bool {
        self.has_password.load(Relaxed)
    }

    /// True if that is the password; of none each is. It takes as long whatever is wrong with it.
    pub fn is_password(&self, said: &[u8]) -> bool {
        let password = self.password.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        password.as_ref().is_none_or(|password| password.is(said))
    }

    /// Counts a wrong password.
    pub fn refused_password(&self) {
        self.wrong_passwords.fetch_add(1, Relaxed);
    }

    /// Sums of all workers, since the server began.
    pub fn totals(&self) -> Sums {
        let mut sums = Sums::of(&self.counters);
        sums.wrong_passwords = self.wrong_passwords.load(Relaxed);
        sums
    }

    /// Sums of all workers, since they were last set to nought.
    pub fn sums(&self) -> Sums {
        let zero = *self.zero.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = self.totals();
        Sums {
            connections: now.connections.wrapping_sub(zero.connections),
            turned_away: now.turned_away.wrapping_sub(zero.turned_away),
            not_taken: now.not_taken.wrapping_sub(zero.not_taken),
            protected: now.protected.wrapping_sub(zero.protected),
            evicted: now.evicted.wrapping_sub(zero.evicted),
            commands: now.commands.wrapping_sub(zero.commands),
            refused: now.refused.wrapping_sub(zero.refused),
            wrong_passwords: now.wrong_passwords.wrapping_sub(zero.wrong_passwords),
            hits: now.hits.wrapping_sub(zero.hits),
            misses: now.misses.wrapping_sub(zero.misses),
            expired: now.expired.wrapping_sub(zero.expired),
            input: now.input.wrapping_sub(zero.input),
            output: now.output.wrapping_sub(zero.output),
            ..now
        }
    }

    /// Sets the sums to nought, of what happens; what there is stays.
    pub fn reset_sums(&self) {
        let now = self.totals();
        *self.zero.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
    }

    /// Time at which it was started, seconds since 1970.
    pub fn started(&self) -> u64 {
        (now() / 1000).saturating_sub(self.uptime())
    }

    /// Time for which it has run, seconds.
    pub fn uptime(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    /// Bytes of memory for what clients have sent half and not yet received.
    pub fn client_memory(&self) -> usize {
        let workers = self.counters.len();
        workers * client_memory(self.memory.load(Relaxed) / workers, self.longest)
    }

    /// Bytes of memory for keys and values.
    pub fn key_memory(&self) -> usize {
        self.memory.load(Relaxed) - self.client_memory().min(self.memory.load(Relaxed))
    }
}

/// The share of a worker's clients of its memory: an eighth, but so much that a command of each kind can be had.
pub fn client_memory(memory: usize, longest: usize) -> usize {
    (memory / 8).max(4 * longest)
}

fn run_id() -> String {
    let random = RandomState::new();
    (0..3).map(|at| format!("{:016x}", random.hash_one(at))).collect::<String>()[..40].to_owned()
}
