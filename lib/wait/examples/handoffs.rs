//! Two threads on two cpus hand a sequence number to and fro, and now and then
//! stay away just long enough that the other one falls asleep at that moment, or
//! makes its sleep a long one: the races that a lost wake-up would come from.
//!
//! ```console
//! $ cargo run --release --package kumiki-wait --example handoffs -- 100000000
//! ```
//!
//! Ends with 0 if every number came, with 1 and a word on who hangs where if
//! nothing has come for ten seconds or a wrong number came. Says how many sleepers
//! saw their number 9.9 ms late or more: where membarrier is dear, one does that has
//! missed its wake-up and looks again after 10 ms; on a busy machine one that the
//! scheduler let wait does, too. `cargo xtask stress wait` runs it, and a test runs a
//! short one.

use std::error::Error;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use kumiki_sys::affinity;
use kumiki_wait::{Bell, Counts, Policy, Sleep, Threshold, Waiter};

/// Once in so many waits a side does not spin but falls asleep at once. (If it
/// always did, the time to wake it would send the other side to sleep as well,
/// and so on for ever.)
const HASTY_ONE_IN: u32 = 16;
/// A sender stays away once in so many handoffs, …
const AWAY_ONE_IN: u32 = 16;
/// … for less than this, nanoseconds: into the middle of the other's falling
/// asleep, and well into its sleep.
const AWAY_NS: u64 = 10_000;
/// Once in so many handoffs, …
const LONG_ONE_IN: u32 = 100_000;
/// … for so long, into the middle of the heavy fence that a sleep of 10 ms makes.
const LONG_NS: std::ops::Range<u64> = 10_000_000..10_600_000;
/// Once in so many handoffs it rings without a cause.
const RING_ONE_IN: u32 = 256;
/// Who sees a number so late may have missed its wake-up.
const LATE: Duration = Duration::from_micros(9900);
/// Nothing for so long is a hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// What one side waits for. Lines of their own: the bell is one, too.
#[repr(align(64))]
struct Inbox {
    number: AtomicU64,
    /// When it was sent, in nanoseconds since `EPOCH`.
    sent: AtomicU64,
    bell: Bell,
}

static INBOXES: [Inbox; 2] =
    [const { Inbox { number: AtomicU64::new(0), sent: AtomicU64::new(0), bell: Bell::new() } }; 2];

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What one side has seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// How its waits ended.
    pub(crate) counts: Counts,
    /// How late those waits with a sleep in them were that ended 9.9 ms after their number
    /// was sent, or later.
    pub(crate) late: Vec<Duration>,
}

/// The number that each side waits for or is about to send.
static STAGES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Plays one side to the end: side 0 sends the odd numbers, side 1 the even ones.
fn play(side: usize, handoffs: u64, seed: u64) -> Result<Seen, String> {
    let waiter = |threshold| {
        let policy = Policy { threshold, sleep: Sleep::Futex, ..Policy::default() };
        Waiter::new(&policy).map_err(|error| error.to_string())
    };
    let mut patient = waiter(Threshold::Adaptive)?;
    let mut hasty = waiter(Threshold::Ticks(0))?;
    let mut random = Rng::with_seed(seed ^ side as u64);
    let (own, other) = (&INBOXES[side], &INBOXES[1 - side]);
    let mut late = Vec::new();
    for number in 1..=handoffs {
        STAGES[side].store(number, Relaxed);
        if number % 2 != side as u64 {
            let away = match random.u32(..LONG_ONE_IN) {
                0 => random.u64(LONG_NS),
                one if one % AWAY_ONE_IN == 0 => random.u64(..AWAY_NS),
                _ => 0,
            };
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_nanos(away) {}
            if random.u32(..RING_ONE_IN) == 0 {
                other.bell.ring();
            }
            other.sent.store(EPOCH.elapsed().as_nanos() as u64, Relaxed);
            other.number.store(number, Release);
            other.bell.ring();
        } else {
            let is_hasty = random.u32(..HASTY_ONE_IN) == 0;
            let waiter = if is_hasty { &mut hasty } else { &mut patient };
            let slept = waiter.counts().slept;
            let came = waiter.wait(&own.bell, &own.number, || {
                Some(own.number.load(Acquire)).filter(|came| *came >= number)
            });
            if came != number {
                return Err(format!("side {side} waited for {number}, and {came} came"));
            }
            if waiter.counts().slept > slept {
                let sent = Duration::from_nanos(own.sent.load(Relaxed));
                late.extend(Some(EPOCH.elapsed().saturating_sub(sent)).filter(|by| *by >= LATE));
            }
        }
    }
    let [Counts { spun, slept, .. }, rest] = [hasty, patient].map(|waiter| waiter.counts());
    let counts = Counts { spun: spun + rest.spun, slept: slept + rest.slept, ..rest };
    Ok(Seen { counts, late })
}

/// Plays both sides, on two cpus if this thread may use two, and watches them.
///
/// # Errors
/// A wrong number, or where both sides hang; then their threads hang on.
pub(crate) fn run(handoffs: u64, seed: u64) -> Result<[Seen; 2], String> {
    let cpus: Vec<usize> = affinity::current().map_err(|e| e.to_string())?.iter().collect();
    let sides = [0, 1].map(|side| {
        let cpu = cpus[side * (cpus.len() - 1)];
        thread::spawn(move || {
            let _bound = affinity::bind(cpu).map_err(|error| error.to_string())?;
            play(side, handoffs, seed)
        })
    });
    let stages = || [0, 1].map(|side: usize| STAGES[side].load(Relaxed));
    let (mut seen, mut since) = (stages(), Instant::now());
    while !sides.iter().any(|side| side.is_finished()) {
        thread::sleep(Duration::from_millis(20));
        if seen != stages() {
            (seen, since) = (stages(), Instant::now());
        } else if since.elapsed() > PATIENCE {
            return Err(format!("no handoff for {PATIENCE:?}:{}{}", describe(0), describe(1)));
        }
    }
    // One has come to its end, so the last number is on its way to the other;
    // a side that has ended with an error leaves the other one waiting.
    let mut ended = Vec::new();
    for (side, thread) in sides.into_iter().enumerate() {
        let begin = Instant::now();
        while !thread.is_finished() {
            if begin.elapsed() > PATIENCE {
                let others = ended.into_iter().filter_map(Result::err).collect::<Vec<String>>();
                return Err(format!("hangs:{} {}", describe(side), others.join(", ")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        ended.push(thread.join().map_err(|_| format!("side {side} panicked"))?);
    }
    let seen = ended.into_iter().collect::<Result<Vec<Seen>, String>>()?;
    Ok(seen.try_into().expect("two sides"))
}

fn describe(side: usize) -> String {
    let (stage, inbox) = (STAGES[side].load(Relaxed), &INBOXES[side]);
    let does = if stage % 2 != side as u64 { "sends" } else { "waits for" };
    let (has, asleep) = (inbox.number.load(Relaxed), inbox.bell.is_asleep());
    format!("\n  side {side} {does} {stage}; in its inbox is {has}, its bell says asleep: {asleep}")
}

#[allow(dead_code, reason = "the test that includes this file has its own")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let handoffs: u64 = std::env::args().nth(1).as_deref().unwrap_or("1000000").parse()?;
    let seed = fastrand::u64(..);
    let begin = Instant::now();
    let outcome = run(handoffs, seed);
    let seconds = begin.elapsed().as_secs_f64();
    Ok(match outcome {
        Ok(seen) => {
            println!("{handoffs} handoffs in {seconds:.1} s (seed {seed}): none lost");
            for (side, Seen { counts: Counts { spun, slept, .. }, late }) in
                seen.into_iter().enumerate()
            {
                println!(
                    "  side {side}: {spun} waits ended spinning, {slept} asleep, \
                     {} of these late: {late:.1?}",
                    late.len()
                );
            }
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("after {seconds:.1} s (seed {seed}): {fault}");
            ExitCode::FAILURE
        }
    })
}
