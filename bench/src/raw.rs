//! The limit: one cache line to the other cpu and back, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use serde::{Deserialize, Serialize};

use crate::pair::Pair;
use crate::stopwatch::{Amount, Stopwatch};

/// The subject's name, in every bench.
pub(crate) const RAW: &str = "raw";

/// A turn of round trips: all that this subject is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RoundTrip;

/// One line, and the neighbour that the processor fetches with it. Odd values
/// are requests, the next even one is the answer.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// A helper that answers for as long as the process lives. Both sides spin
/// without PAUSE.
pub(crate) struct Raw {
    line: Arc<Line>,
    /// The last answer.
    value: u64,
    watch: Stopwatch,
}

impl Raw {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let line = Arc::new(Line::default());
        let its = Arc::clone(&line);
        pair.on_helper(move || std::thread::Builder::new().spawn(move || answer(&its.0)))??;
        Ok(Raw { line, value: 0, watch: Stopwatch::new() })
    }

    /// Samples of one turn, nanoseconds.
    pub(crate) fn turn(&mut self) -> Vec<f64> {
        let Raw { line, value, watch } = self;
        watch.each(Amount::hot(200), || {
            // Release and Acquire, each the other side's partner: plain
            // moves on x86-64.
            line.0.store(*value + 1, Ordering::Release);
            *value += 2;
            while line.0.load(Ordering::Acquire) != *value {}
        })
    }
}

fn answer(line: &AtomicU64) -> ! {
    loop {
        let value = line.load(Ordering::Acquire);
        if value % 2 == 1 {
            line.store(value + 1, Ordering::Release);
        }
    }
}
