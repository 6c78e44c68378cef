//! Measures a list of cases: passes over all of them, each in a new order.
//!
//! A pass visits every case once. The visits of one case are therefore spread
//! over the whole run, between visits to all others: what drifts within a run
//! (clock speed, a moved vCPU, page placement) shows as differences between
//! the visits of a case, and its confidence interval, a bootstrap over visits,
//! contains it. Cases that are compared have seen the same moments. Only a case that lasts
//! for seconds ([`Case::once`]) is visited in the first pass alone.
//!
//! ```text
//! pass 1   | exec 64K | fork 0 | pipe | fork 1M | …
//! pass 2   | pipe | fork 1M | exec 64K | fork 0 | …     until the interval is
//! pass 3   | fork 0 | pipe | …                          narrow or time is up
//! ```

mod apart;
mod visit;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::activity::Probe;
use crate::case::{Case, Level, Place};
use crate::error::Result;
use crate::meter::Meter;
use crate::neighbours::Neighbours;
use crate::peak::Peak;
use crate::round_trip::RoundTrip;
use crate::schema::{Other, Visit};
use crate::stats::{bootstrap, describe};
pub use apart::{Apart, answer};
use visit::Visitor;

/// A raw round trip that changed by more than this factor during a visit means
/// that the cpus moved apart or together.
const MOVED: f64 = 1.5;

/// Length and precision of a measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// No new visit begins after this time, once every case has been visited.
    pub budget: Duration,
    /// A case is left alone when half its confidence interval is below this
    /// share of its median.
    pub target: f64,
    /// Visits of every case before `target` counts.
    pub passes_at_least: usize,
    /// Visits of a case at most.
    pub passes_at_most: usize,
    /// Time for the samples of one visit.
    pub visit: Duration,
}

impl Settings {
    /// The settings of `--quick`, the default, and `--full`.
    pub fn of(level: Level) -> Self {
        let (budget, target, passes_at_least, passes_at_most, visit) = match level {
            Level::Quick => (36, 0.02, 12, 24, 8),
            Level::Default => (250, 0.01, 10, 40, 20),
            Level::Full => (1_500, 0.005, 20, 100, 50),
        };
        Settings {
            budget: Duration::from_secs(budget),
            target,
            passes_at_least,
            passes_at_most,
            visit: Duration::from_millis(visit),
        }
    }
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The case that comes next.
    pub next: &'a str,
    /// Time since the start.
    pub elapsed: Duration,
    /// Time left at most: by the budget, and by what visits took until now.
    pub left: Duration,
}

/// Is told what happens; keeps it, or shows it.
pub trait Observer {
    /// A visit ended. An error ends the run.
    fn visited(&mut self, case: &Case, pass: usize, cpus: &[usize], visit: &Visit) -> Result<()>;
    /// A case cannot run here; it is not tried again.
    fn skipped(&mut self, case: &Case, reason: &str) -> Result<()>;
    /// A visit begins.
    fn progress(&mut self, progress: Progress<'_>) {
        let _ = progress;
    }
}

/// End of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// False if `stop` ended it early.
    pub complete: bool,
    /// Time from start to end.
    pub length: Duration,
    /// Peak resident memory of this process beside what cases asked for, bytes.
    pub peak_bytes: Option<u64>,
    /// Processes that used the cpus, the largest first.
    pub others: Vec<Other>,
}

/// Measures cases at a place.
#[derive(Debug)]
pub struct Sampler<'a> {
    /// Cpus on which it runs.
    pub place: &'a Place,
    /// Length and precision.
    pub settings: &'a Settings,
    /// Clocks of the measurement.
    pub meter: &'a Meter,
    /// Set by somebody else to end the run after the visit in progress.
    pub stop: &'a AtomicBool,
    /// Server of the visits that need a process of their own; without it this process makes them.
    pub apart: Option<&'a Apart>,
}

/// State of one case during a run.
#[derive(Clone, Default)]
struct State {
    blocks: Vec<Vec<f64>>,
    finished: bool,
}

impl Sampler<'_> {
    /// Measures `cases`; the calling thread is bound to the place's cpu meanwhile,
    /// or to the cpu that a case is about.
    ///
    /// A case that fails is reported as skipped, with its error's text, and
    /// the rest goes on.
    pub fn run(&self, cases: &[Case], observer: &mut dyn Observer) -> Result<Outcome> {
        let _bound = kumiki_sys::affinity::bind(self.place.cpu)?;
        let mut machine = Watch::new(self.place)?;
        let mut peak = Peak::default();
        let mut neighbours = Neighbours::new();
        let mut random = fastrand::Rng::with_seed(0x6b75_6d69_6b69);
        let mut states = vec![State::default(); cases.len()];
        let mut visits = 0;
        let start = Instant::now();

        'run: for pass in 0..self.settings.passes_at_most {
            let mut order: Vec<usize> = (0..cases.len()).filter(|&i| !states[i].finished).collect();
            // The first pass goes by the catalogue, so that rows are stored in
            // its order.
            if pass > 0 {
                random.shuffle(&mut order);
            }
            for (position, &i) in order.iter().enumerate() {
                let elapsed = start.elapsed();
                if self.stopped() || (pass > 0 && elapsed >= self.settings.budget) {
                    break 'run;
                }
                let passes = (self.settings.passes_at_most - pass) as u32;
                let each = elapsed / visits.max(1);
                let to_come =
                    (each * order.len() as u32 * passes).saturating_sub(each * position as u32);
                let left = to_come.min(self.settings.budget.saturating_sub(elapsed));
                neighbours.look_if_due();
                observer.progress(Progress { next: cases[i].name, elapsed, left });
                peak.begin();
                let visited = self.visit_where_due(&cases[i], &mut machine, &mut peak);
                peak.end(cases[i].asks_bytes);
                visits += 1;
                match visited {
                    Ok(visit) => {
                        let cpus = cases[i].cpus.as_ref().map(<[usize; 2]>::as_slice);
                        let cpus = cpus.unwrap_or(machine.cpus(&cases[i]));
                        observer.visited(&cases[i], pass, cpus, &visit)?;
                        states[i].add(visit.samples, self.settings);
                        states[i].finished |= cases[i].once;
                    }
                    // A visit that a person's Ctrl-C broke is no fault of the case.
                    Err(_) if self.stopped() => break 'run,
                    Err(error) => {
                        states[i].finished = true;
                        observer.skipped(&cases[i], &error.to_string())?;
                    }
                }
            }
        }
        Ok(Outcome {
            complete: !self.stopped(),
            length: start.elapsed(),
            peak_bytes: peak.bytes(),
            others: neighbours.found(),
        })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A visit at the run's place, or at the case's own.
    fn visit_where_due(&self, case: &Case, machine: &mut Watch, peak: &mut Peak) -> Result<Visit> {
        let Some([cpu, partner]) = case.cpus else {
            return self.visit(case, self.place, machine, peak);
        };
        let _bound = kumiki_sys::affinity::bind(cpu)?;
        let scratch = self.place.scratch.clone();
        let place = Place { cpu, partner: Some(partner), scratch };
        self.visit(case, &place, &mut Watch::new(&place)?, peak)
    }

    /// One visit with the cache-line round trip around it.
    fn visit(
        &self,
        case: &Case,
        place: &Place,
        machine: &mut Watch,
        peak: &mut Peak,
    ) -> Result<Visit> {
        let before = machine.round_trip_ns(self.meter);
        let length = self.settings.visit;
        let mut visit = match self.apart.filter(|_| case.apart) {
            Some(apart) => {
                let (visit, bytes) = apart.visit(case, place, length, self.meter)?;
                peak.add(bytes);
                visit
            }
            None => Visitor { meter: self.meter, probe: machine.probe(case), length }
                .visit(case, place)?,
        };
        visit.round_trip_before_ns = before;
        visit.round_trip_after_ns = machine.round_trip_ns(self.meter);
        if case.two_cpus {
            visit.disturbances.extend(moved(&visit));
        }
        Ok(visit)
    }
}

impl State {
    fn add(&mut self, samples: Vec<f64>, settings: &Settings) {
        self.blocks.push(samples);
        // Resampling takes milliseconds: not after every visit.
        let looks = self.blocks.len() - settings.passes_at_least.min(self.blocks.len());
        if self.blocks.len() >= settings.passes_at_least && looks % 2 == 0 {
            let median = describe::median_of(self.blocks.concat());
            let [low, high] = bootstrap::median_ci(self.blocks.iter().map(Vec::as_slice));
            self.finished = (high - low) / 2.0 <= settings.target * median;
        }
    }
}

/// The machine's own state beside the cases: activity and distance of the cpus.
struct Watch {
    cpus: Vec<usize>,
    one: Probe,
    both: Probe,
    distance: Option<RoundTrip>,
}

impl Watch {
    fn new(place: &Place) -> Result<Self> {
        let cpus: Vec<usize> = [place.cpu].into_iter().chain(place.partner).collect();
        let distance =
            place.partner.map(|partner| RoundTrip::start(place.cpu, partner)).transpose()?;
        Ok(Watch { one: Probe::new(&cpus[..1])?, both: Probe::new(&cpus)?, cpus, distance })
    }

    fn probe(&self, case: &Case) -> &Probe {
        if case.two_cpus { &self.both } else { &self.one }
    }

    fn cpus(&self, case: &Case) -> &[usize] {
        if case.two_cpus { &self.cpus } else { &self.cpus[..1] }
    }

    fn round_trip_ns(&mut self, meter: &Meter) -> Option<f64> {
        self.distance.as_mut().and_then(|distance| distance.measure(meter.clock()))
    }
}

/// Says so if the cpus' distance changed during the visit.
fn moved(visit: &Visit) -> Option<String> {
    let (before, after) = (visit.round_trip_before_ns?, visit.round_trip_after_ns?);
    let factor = before.max(after) / before.min(after).max(1.0);
    (factor > MOVED).then(|| "the cache-line round trip changed".to_owned())
}

#[cfg(test)]
mod tests;
