//! What a round is drawn to be: an engine of one sort or another, and what befalls
//! it. It lasts until the engine is shut down.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fastrand::Rng;
use kumiki_parasc::backend::availability;
use kumiki_parasc::{AllowList, Backend, Config, Engine, Request};

use super::{PLAYERS, THREADS};

/// Who makes the calls. The last ones are not there everywhere.
pub(crate) const BACKENDS: [Backend; 3] = [Backend::Auto, Backend::User, Backend::Kernel];
/// The calls that are made.
const CALLS: [&str; 7] =
    ["getppid", "gettid", "close", "pread64", "write", "nanosleep", "recvfrom"];
/// A round lasts for less than this, milliseconds.
const LIFE_MS: u64 = 200;
/// Between two signals at most, microseconds.
const RAIN_US: [u64; 3] = [20, 200, 2000];

/// A call that an allow-list of these lacks.
pub(crate) fn not_allowed() -> Request {
    Request::new(libc::SYS_getpid, [])
}

/// In rounds of a few threads there are so many.
const FEW: usize = 2;

/// How many rounds were drawn to be what.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    pub(crate) backends: [AtomicU64; BACKENDS.len()],
    /// With an allow-list.
    pub(crate) narrow: AtomicU64,
    /// In which requesting threads make no calls themselves.
    pub(crate) left_to_others: AtomicU64,
    /// With signals.
    pub(crate) rainy: AtomicU64,
    /// Of one or two threads.
    pub(crate) few: AtomicU64,
}

/// One engine, and what there is to know of it.
pub(crate) struct Round {
    pub(crate) engine: Engine,
    /// It has an allow-list, of the calls that are made here.
    pub(crate) is_narrow: bool,
    /// Signals come, at most so many microseconds apart.
    pub(crate) rain: Option<u64>,
    /// It lasts for so long.
    pub(crate) life: Duration,
    /// Whose it is: so many threads' in a row, from this one.
    threads: usize,
    first: usize,
}

impl Round {
    /// Whether thread `number` makes requests in it.
    pub(crate) fn has(&self, number: usize) -> bool {
        (number + THREADS - self.first) % THREADS < self.threads
    }
}

/// Draws what there is in turns, in a random order: a short run has some of each.
struct Turns<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Copy> Turns<T> {
    fn of(all: Vec<T>) -> Self {
        Turns { all, left: Vec::new() }
    }

    fn next(&mut self, random: &mut Rng) -> T {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
        }
        self.left.swap_remove(random.usize(..self.left.len()))
    }
}

/// What rounds are drawn from.
pub(crate) struct Deck {
    random: Rng,
    backends: Turns<usize>,
    narrow: Turns<bool>,
    rainy: Turns<bool>,
    few: Turns<bool>,
}

impl Deck {
    pub(crate) fn new(seed: u64) -> Self {
        let only = std::env::var("KUMIKI_STRESS_BACKEND").ok();
        let is_there = |backend: Backend| {
            let is_wanted = only.as_ref().is_none_or(|only| *only == backend.to_string());
            let availability = || availability().into_iter();
            let is_available = || availability().any(|one| one.backend == backend && one.available);
            is_wanted && (backend == Backend::Auto || is_available())
        };
        let backends = (0..BACKENDS.len()).filter(|at| is_there(BACKENDS[*at])).collect();
        let either = || Turns::of(vec![false, true]);
        Deck {
            random: Rng::with_seed(seed),
            backends: Turns::of(backends),
            narrow: either(),
            rainy: either(),
            few: either(),
        }
    }

    pub(crate) fn draw(&mut self, drawn: &Drawn) -> Result<Round, String> {
        let random = &mut self.random;
        let at = self.backends.next(random);
        let is_narrow = self.narrow.next(random);
        let few = self.few.next(random);
        let threads = if few { random.usize(1..=FEW) } else { THREADS };
        let first = random.usize(..THREADS);
        let rain = self.rainy.next(random).then(|| RAIN_US[random.usize(..RAIN_US.len())]);
        let allowed = AllowList::none().allow_each(CALLS).map_err(|error| error.to_string())?;
        let config = Config {
            // Two for each thread: the former one is dropped when there is a new one.
            requesters: PLAYERS * 2,
            slots: [2, 7, 64, 512][random.usize(..4)],
            threads: [0, 3, 64][random.usize(..3)],
            retire: [Duration::from_micros(100), Duration::from_millis(5), Duration::MAX]
                [random.usize(..3)],
            allow: is_narrow.then_some(allowed),
            backend: BACKENDS[at],
            // To be told who has made a call.
            wrong_thread_answers: true,
            help: random.u32(..8) != 0,
            ..Config::default()
        };
        drawn.backends[at].fetch_add(1, Relaxed);
        drawn.narrow.fetch_add(is_narrow.into(), Relaxed);
        drawn.rainy.fetch_add(rain.is_some().into(), Relaxed);
        drawn.few.fetch_add(few.into(), Relaxed);
        drawn.left_to_others.fetch_add((!config.help).into(), Relaxed);
        let engine = Engine::new(&config).map_err(|error| error.to_string())?;
        let life = Duration::from_millis(self.random.u64(..LIFE_MS));
        Ok(Round { engine, is_narrow, rain, life, threads, first })
    }
}
