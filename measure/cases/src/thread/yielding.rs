//! sched_yield(2), with nobody and with somebody to yield to.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex::Flags;
use rustix::thread::sched_yield;

use crate::ipc::caller::InProcess;
use crate::ipc::token;
use kumiki_measure::case::{Case, Each, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::helper::{Helper, Part};
use kumiki_measure::meter::{Meter, Sample};

pub(super) fn cases() -> Vec<Case> {
    let alone = |_: &Place| {
        Ok(Each(|| {
            sched_yield();
            Ok(())
        }))
    };
    let competing = |place: &Place| Ok(Competing(Helper::start(place.cpu, Competitor::default())?));
    let about = "sched_yield, alone or with a thread on the same cpu that yields, too";
    vec![
        Case::new("thread.yield", about, alone).with("competitor", false),
        Case::new("thread.yield", about, competing).with("competitor", true),
    ]
}

/// A thread that yields all the time, but only while a sample is taken:
/// otherwise it sleeps on `start`.
#[derive(Default)]
struct Competitor {
    start: AtomicU32,
    yields: AtomicBool,
    turns: AtomicU64,
}

const GO: u32 = 1;
const QUIT: u32 = 2;

impl Part for Competitor {
    fn help(&self) {
        while let Ok(GO) = token::take(&InProcess, &self.start, Flags::PRIVATE) {
            // Relaxed: both are only looked at, nothing else is passed.
            while self.yields.load(Ordering::Relaxed) {
                self.turns.fetch_add(1, Ordering::Relaxed);
                sched_yield();
            }
        }
    }

    fn stop(&self) {
        // Waking a word that is mapped cannot fail.
        let _ = token::pass(&self.start, QUIT, Flags::PRIVATE);
    }
}

struct Competing(Helper<Competitor>);

impl Workload for Competing {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let competitor = self.0.part();
        competitor.yields.store(true, Ordering::Relaxed);
        let before = competitor.turns.load(Ordering::Relaxed);
        token::pass(&competitor.start, GO, Flags::PRIVATE)
            .map_err(|errno| Error::os("wake the competitor", errno))?;
        while competitor.turns.load(Ordering::Relaxed) == before {
            sched_yield();
        }
        let sample = meter.time(|| {
            for _ in 0..iterations {
                sched_yield();
            }
            Ok(())
        });
        competitor.yields.store(false, Ordering::Relaxed);
        sample
    }
}
