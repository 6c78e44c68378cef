//! The limit: one cache line to the other cpu and back, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use serde::{Deserialize, Serialize};

use crate::pair::Pair;
use crate::stopwatch::{Amount, Stopwatch};

/// The subject's name, in every bench.
pub const RAW: &str = "raw";

/// A turn of round trips: all that this subject is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub struct RoundTrip;

/// Where a line lies in memory decides which part of the last cache it passes by:
/// that makes up to a third of its round trip. Each turn has another of so many.
const LINES: usize = 256;

/// One line, on a page of its own. Odd values are requests, the next even one is
/// the answer; [`MOVE`] ends its turn.
#[derive(Debug)]
#[repr(align(4096))]
struct Line(AtomicU64);

/// The helper goes on to the next line.
const MOVE: u64 = u64::MAX;

/// A helper that answers for as long as the process lives. Both sides spin
/// without PAUSE.
#[derive(Debug)]
pub struct Raw {
    lines: Arc<[Line]>,
    /// The line of the last turn.
    at: usize,
    watch: Stopwatch,
}

impl Raw {
    /// Starts the helper.
    pub fn new(pair: Pair) -> Result<Self> {
        let lines: Arc<[Line]> = (0..LINES).map(|_| Line(AtomicU64::new(0))).collect();
        let its = Arc::clone(&lines);
        pair.on_helper(move || std::thread::Builder::new().spawn(move || answer(&its)))??;
        Ok(Raw { lines, at: 0, watch: Stopwatch::new() })
    }

    /// Samples of one turn, nanoseconds.
    pub fn turn(&mut self) -> Vec<f64> {
        let Raw { lines, at, watch } = self;
        let last = std::mem::replace(at, (*at + 1) % LINES);
        lines[*at].0.store(0, Ordering::Relaxed);
        // Release: the helper finds the next line as it was just left.
        lines[last].0.store(MOVE, Ordering::Release);
        let (line, mut value) = (&lines[*at].0, 0);
        watch.each(Amount::hot(200), || {
            // Release and Acquire, each the other side's partner: plain
            // moves on x86-64.
            line.store(value + 1, Ordering::Release);
            value += 2;
            while line.load(Ordering::Acquire) != value {}
        })
    }
}

fn answer(lines: &[Line]) -> ! {
    for Line(line) in lines.iter().cycle() {
        loop {
            match line.load(Ordering::Acquire) {
                MOVE => break,
                value if value % 2 == 1 => line.store(value + 1, Ordering::Release),
                _ => (),
            }
        }
    }
    unreachable!("there are lines")
}
