//! One visit to one case: set up, warm up, sample, tear down.

use std::time::{Duration, Instant};

use kumiki_sys::cycle::{core_cycle_in_passing_ns, core_cycle_ns};

use crate::activity::Probe;
use crate::case::{Case, Place, Workload};
use crate::error::Result;
use crate::meter::{Meter, Sample};
use crate::schema::{CpuTime, Unit, Visit};
use crate::stats::quiet;

/// A sample is at least this many times the clock's resolution: below 1 %.
const RESOLUTIONS: f64 = 100.0;
/// A sample is at least this long, so that reading processor time around it
/// (two system calls) leaves the caches of the operation alone.
const SAMPLE_NS: f64 = 20_000.0;
/// Samples of a visit; more would say little new about the median, and the
/// time is better spent on a visit at another moment.
const SAMPLES: usize = 64;
/// Samples that a visit takes even if each is longer than the visit should be,
/// unless they are longer than this together.
const SAMPLES_AT_LEAST: usize = 3;
const LONG: Duration = Duration::from_millis(100);
/// Keeps a bandwidth finite where a sample was all overhead.
const SHORTEST_NS: f64 = 0.01;
/// Times that the sampler's own share is measured in a visit.
const OVERHEADS: usize = 9;

/// Means to make a visit.
pub(super) struct Visitor<'a> {
    pub(super) meter: &'a Meter,
    pub(super) probe: &'a Probe,
    /// Time for the samples; set-up and warm-up come on top.
    pub(super) length: Duration,
}

impl Visitor<'_> {
    /// Visits `case`; the round trips are left to the caller.
    pub(super) fn visit(&self, case: &Case, place: &Place) -> Result<Visit> {
        let cycle_before = core_cycle_ns(self.meter.clock());
        let before_setup = self.probe.read_outer()?;
        let mut workload = (case.setup)(place)?;
        let batch = if case.once { 1 } else { self.warm_up(workload.as_mut())? };
        let before = self.probe.read()?;
        let most = if case.once { 1 } else { SAMPLES };
        let (taken, cycles) = self.samples(workload.as_mut(), batch, most)?;
        let after = self.probe.read()?;
        let overhead_ns = self.overhead(workload.as_mut(), batch)?;
        drop(workload);
        let after_teardown = self.probe.read_outer()?;
        let cycle_after = core_cycle_ns(self.meter.clock());

        let per = batch as f64;
        let ns = |sample: &Sample| ((sample.wall_ns / per) - overhead_ns).max(0.0);
        let samples: Vec<f64> = taken
            .iter()
            .map(|sample| match case.unit {
                Unit::Nanoseconds => ns(sample),
                Unit::GigabytesPerSecond => case.bytes as f64 / ns(sample).max(SHORTEST_NS),
                // Shares of the same time: there is nothing to subtract.
                Unit::Cpus => (sample.cpu.total_ns() / sample.wall_ns.max(SHORTEST_NS)).max(0.0),
                Unit::Watts => (sample.joules * 1e9 / sample.wall_ns.max(SHORTEST_NS)).max(0.0),
            })
            .collect();
        let operations = per * taken.len() as f64;
        let mean = |part: fn(&CpuTime) -> f64| {
            taken.iter().map(|sample| part(&sample.cpu)).sum::<f64>() / operations
        };
        let programs = taken.iter().map(|sample| sample.program).sum();
        let activity =
            self.probe.activity([&before_setup, &after_teardown], [&before, &after], programs);
        let mut disturbances = self.probe.disturbances(&activity);
        let shortest = taken.iter().map(|s| s.wall_ns).fold(f64::INFINITY, f64::min);
        if shortest < self.meter.clock().resolution_ns() * RESOLUTIONS {
            disturbances.push("a sample is short for the clock".to_owned());
        }
        Ok(Visit {
            batch,
            overhead_ns,
            quiet_cycle_ns: quiet::beside(&samples, &cycles, case.unit),
            samples,
            cpu: CpuTime {
                user_ns: mean(|c| c.user_ns),
                system_ns: mean(|c| c.system_ns),
                children_ns: mean(|c| c.children_ns),
            },
            round_trip_before_ns: None,
            round_trip_after_ns: None,
            cycle_ns: [Some(cycle_before), Some(cycle_after)],
            activity,
            disturbances,
        })
    }

    /// Repeats the operation until caches and predictors know it, and finds how
    /// many make a sample long enough for the clock.
    fn warm_up(&self, workload: &mut dyn Workload) -> Result<u64> {
        let enough_ns = SAMPLE_NS.max(self.meter.clock().resolution_ns() * RESOLUTIONS);
        let most = workload.max_batch().unwrap_or(u64::MAX).max(1);
        let mut batch = 1;
        loop {
            let mut wall_ns = workload.sample(batch, self.meter)?.wall_ns;
            if batch >= most {
                break;
            }
            if wall_ns >= enough_ns {
                // An interrupt may have made it long; the shorter of two counts.
                wall_ns = wall_ns.min(workload.sample(batch, self.meter)?.wall_ns);
            }
            if wall_ns >= enough_ns {
                break;
            }
            // Aim a little above, and never trust one short first sample too far.
            let wanted = batch as f64 * 1.2 * enough_ns / wall_ns.max(1.0);
            batch = (wanted.ceil() as u64).clamp(batch + 1, batch.saturating_mul(16)).min(most);
        }
        let end = Instant::now() + self.length / 10;
        while Instant::now() < end {
            workload.sample(batch, self.meter)?;
        }
        Ok(batch)
    }

    /// Samples, at most so many, and the core's cycle just before each.
    fn samples(
        &self,
        workload: &mut dyn Workload,
        batch: u64,
        most: usize,
    ) -> Result<(Vec<Sample>, Vec<f64>)> {
        let start = Instant::now();
        let mut taken = Vec::with_capacity(most);
        let mut cycles = Vec::with_capacity(most);
        loop {
            cycles.push(core_cycle_in_passing_ns(self.meter.clock()));
            taken.push(workload.sample(batch, self.meter)?);
            let least = if taken.len() < SAMPLES_AT_LEAST { LONG } else { Duration::ZERO };
            if taken.len() == most || start.elapsed() >= self.length.max(least) {
                return Ok((taken, cycles));
            }
        }
    }

    /// The sampler's own share of an operation, nanoseconds.
    fn overhead(&self, workload: &mut dyn Workload, batch: u64) -> Result<f64> {
        let mut taken = Vec::with_capacity(OVERHEADS);
        for _ in 0..OVERHEADS {
            taken.push(workload.overhead(batch, self.meter)?.wall_ns / batch as f64);
        }
        taken.sort_by(f64::total_cmp);
        Ok(taken[OVERHEADS / 2])
    }
}
