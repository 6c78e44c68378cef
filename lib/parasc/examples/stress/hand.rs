//! A handful of requests that are made one by one, and what tells of each how
//! often it was made.
//!
//! Request `at` adds 4 to the power of `at` to a counter: digit `at` of the sum, of
//! base 4, is how often it was made. The others of those that receive take a
//! message each.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use fastrand::Rng;
use kumiki_parasc::Request;

use super::kind::{self, Kind};
use super::things::Things;
use super::{Scene, WORDS};

/// Requests of a hand, at most: so many digits the counter has.
const MOST: usize = 31;

/// Requests, each of which leaves a trace of its own.
pub(crate) struct Hand {
    things: Things,
    kinds: Vec<Kind>,
    sent: Vec<u64>,
    /// How often each was said to have been made.
    told: [AtomicU32; MOST],
    /// Those that a signal has interrupted, a bit each.
    interrupted: AtomicU32,
}

impl Hand {
    pub(crate) fn new(scene: &Scene, random: &mut Rng) -> Result<Hand, String> {
        let kinds: Vec<Kind> = (0..random.usize(1..=MOST)).map(|_| kind::single(random)).collect();
        let number = |(at, kind): (usize, &Kind)| match kind {
            Kind::Pread => random.u64(..WORDS),
            Kind::Add => 1 << (2 * at),
            _ => random.u64(..),
        };
        let sent = kinds.iter().enumerate().map(number).collect();
        let told = [const { AtomicU32::new(0) }; MOST];
        let interrupted = AtomicU32::new(0);
        Ok(Hand { things: Things::new(scene)?, kinds, sent, told, interrupted })
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The word that request `at` writes or overwrites.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.sent[at]
    }

    pub(crate) fn request(&self, at: usize, address: u64) -> Request {
        self.things.request(self.kinds[at], address, self.sent[at])
    }

    /// Sends a message for one request that receives.
    pub(crate) fn send(&self) {
        self.things.send(1);
    }

    /// Notes that request `at` was made, as the engine has it, with this result.
    pub(crate) fn tell(&self, at: usize, result: i64) {
        if self.kinds[at].is_interrupted(result) {
            self.interrupted.fetch_or(1 << at, AcqRel);
        }
        self.told[at].fetch_add(1, AcqRel);
    }

    /// Requests that a signal has interrupted.
    pub(crate) fn interrupted(&self) -> u64 {
        self.interrupted.load(Acquire).count_ones().into()
    }

    /// Whether request `at` was answered rightly, which was told before.
    pub(crate) fn check(&self, at: usize, result: i64, word: u64) -> Result<(), String> {
        self.things.check(self.kinds[at], self.sent[at], result, word)?;
        match self.made_times(at) {
            1 => Ok(()),
            told => Err(format!("{:?} was answered, and made {told} times", self.kinds[at])),
        }
    }

    /// Whether request `at` has had no effect so far, of which the engine says so.
    pub(crate) fn check_not_made(&self, at: usize, word: u64) -> Result<(), String> {
        match (self.made_times(at), word == self.sent[at]) {
            (0, true) => Ok(()),
            (told, _) => Err(format!(
                "{:?} is said not to be made, {told} times made, {} became {word}",
                self.kinds[at], self.sent[at]
            )),
        }
    }

    fn made_times(&self, at: usize) -> u32 {
        self.told[at].load(Acquire)
    }

    /// Whether each has had its effect as often as it was told, once at most; if
    /// so, says how many effects there were. When all have ended, a message
    /// having been sent for each that receives.
    pub(crate) fn effects(&self) -> Result<u64, String> {
        let (sum, mut effects, mut received) = (self.things.sum()?, 0, 0);
        for (at, kind) in self.kinds.iter().enumerate() {
            let told = self.made_times(at);
            let added = (sum >> (2 * at) & 3) as u32;
            let expected = if *kind == Kind::Add { told } else { 0 };
            if told > 1 || added != expected {
                let all = self.kinds.len();
                return Err(format!("request {at} of {all}, {kind:?}: told {told}, added {added}"));
            }
            let whole = self.interrupted.load(Acquire) >> at & 1 == 0;
            received += usize::from(*kind == Kind::Receive && told == 1 && whole);
            effects += u64::from(added);
        }
        let sent = self.kinds.iter().filter(|kind| **kind == Kind::Receive).count();
        let left = self.things.left_over()?.len();
        if sent != received + left {
            return Err(format!("of {sent} messages {received} were received and {left} are left"));
        }
        Ok(effects + received as u64)
    }
}
